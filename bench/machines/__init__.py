"""SVR, NuSVR, NuSVC and OneClassSVM: competitors, cases, referee."""
