#include "train/gradient_file.h"

#include <ATen/core/Tensor.h>

#include "weights/safetensors_writer.h"

namespace plimsoll {

Result<void> write_gradients(runtime::TrainingRun& run, const Architecture& architecture,
                             const std::filesystem::path& path) {
  std::vector<TensorSpec> specs;
  for (const native::UnitTensors& u : run.training().units)
    for (const native::UnitTensor& t : u.unit.tensors) {
      const ParameterTensor& p = architecture.parameters[t.parameter];
      specs.push_back({.name = p.name, .dtype = DType::kFloat32, .shape = p.shape});
    }
  PLIMSOLL_TRY(writer, SafetensorsWriter::create(path, specs));
  for (const native::UnitTensors& u : run.training().units) {
    const at::Tensor gradient = run.executor().tensor(u.gradient);
    if (gradient.numel() != u.unit.elements)
      return fail({.position = {.file = "--dump-gradients"},
                   .message = "gradients are divided among the ranks",
                   .expected = "one rank, or zero.stage 0"});
    for (const native::UnitTensor& t : u.unit.tensors) {
      const at::Tensor part = gradient.narrow(0, t.offset, t.elements);
      PLIMSOLL_CHECK(writer.write({static_cast<const std::byte*>(part.data_ptr()), part.nbytes()}));
    }
  }
  return writer.finish();
}

}  // namespace plimsoll
