// A libnvidia-ml.so.1 that has next to nothing. library_test.go compiles it.
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
