"""scikit-learn's callbacks where it has them (1.9 and later), and nothing in their place where not."""

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:
        """Stands in for the mixin of newer versions of scikit-learn; there are no callbacks."""

    def with_callbacks(method):
        """Return `method` itself."""
        return method


__all__ = ["CallbackSupportMixin", "with_callbacks"]
