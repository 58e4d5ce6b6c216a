"""How does a linear machine on a cluster of this machine compare with other programs on it, and with a local fit?"""
