"""Small problems of kernel SVMs, many of them solved in one compiled call."""
