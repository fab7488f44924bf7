#ifndef SYMPHONY_LOG_H
#define SYMPHONY_LOG_H

// Makes ONNX Runtime's environment, with a logger that calls symOnnxrtLog. NULL: done; else what is missing.
const char *sym_log_open(const char *library, int severity);

#endif
