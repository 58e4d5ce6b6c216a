"""Links from the HTML that stands for an estimator in a notebook to its page in the documentation."""

__all__ = ["DocLinkMixin"]


class DocLinkMixin:
    """Names the page of an estimator, as scikit-learn's base class asks for it."""

    _doc_link_module = "fastsvm"
    _doc_link_template = "https://fastsvm.github.io/fastsvm/reference/generated/fastsvm.{estimator_name}.html"
