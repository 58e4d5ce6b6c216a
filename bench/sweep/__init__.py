"""Fits that are drawn at random, each by fastsvm and by scikit-learn: who is faster, and are the answers right?"""
