#include "exec/cuda/cuda_error.h"

#include <string>

namespace breccia::exec::cuda {

Status status_of(cudaError_t error, const char* file, int line) {
  if (error == cudaSuccess) return Status::OK();
  (void)cudaGetLastError();
  const std::string place = std::string(file) + ":" + std::to_string(line);
  const std::string text = std::string(cudaGetErrorName(error)) + ", " + cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) return Status::MemoryLimit(place, text);
  return Status::IOError(place, text);
}

}  // namespace breccia::exec::cuda
