"""A model of one class that LIBLINEAR 2.50 wrote, and the decision values that its library computes."""

ONE_CLASS = (
    """\
solver_type ONECLASS_SVM
nr_class 2
nr_feature 4
bias -1
rho 1.8194060324825987
w
0.6779582366589334 
-0.40668213457076596 
-0.34412993039443129 
1.862552204176334 
""",
    [[-1.1315359628770298], [0.19877494199536194], [0.31333642691415386]],
)
