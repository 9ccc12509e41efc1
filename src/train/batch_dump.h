// The tokens that a run is trained on, as text: a line for each sequence, its inputs and the last label.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace plimsoll {

class BatchDump {
 public:
  // Without a path nothing is written. Errors: a file that can't be.
  static Result<BatchDump> open(const std::optional<std::string>& path);
  Result<void> write(const at::Tensor& ids, const at::Tensor& labels);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
};

}  // namespace plimsoll
