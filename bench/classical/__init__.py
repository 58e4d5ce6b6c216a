"""Textbook methods: coordinate ascent beside SMO, the loops of tutorials beside exact steps, primal beside dual."""
