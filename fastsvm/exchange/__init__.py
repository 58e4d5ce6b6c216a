"""Models of other programs: LIBSVM's and LIBLINEAR's text, and scikit-learn's estimators."""
