// Laws of safetensors files: what is written is read, and what is cut is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "base/test_folder.h"
#include "weights/model_weights.h"
#include "weights/model_writer.h"
#include "weights/weights_test_helpers.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::vector<TensorSpec> any_specs() {
  const auto names = *rc::gen::container<std::set<std::string>>(
      rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127)));
  std::vector<TensorSpec> specs;
  for (const std::string& name : names)
    specs.push_back(
        {.name = name,
         .dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16, DType::kInt64, DType::kBool),
         .shape =
             *rc::gen::resize(3, rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 4)))});
  return specs;
}

std::string any_bytes(size_t count) {
  return *rc::gen::container<std::string>(count, rc::gen::arbitrary<char>());
}

Result<void> write_model(const fs::path& folder, const std::vector<TensorSpec>& specs,
                         const std::vector<std::string>& data, uint64_t most_shard_bytes) {
  PLIMSOLL_TRY(writer, ModelWriter::create(folder, specs, {.most_shard_bytes = most_shard_bytes}));
  for (const std::string& bytes : data)
    for (size_t done = 0; done < bytes.size(); done += 3)
      PLIMSOLL_CHECK(writer.write(
          std::as_bytes(std::span(bytes)).subspan(done, std::min<size_t>(3, bytes.size() - done))));
  return writer.finish();
}

RC_GTEST_PROP(SafetensorsLaw, WhatIsWrittenIsRead, ()) {
  const std::vector<TensorSpec> specs = any_specs();
  std::vector<std::string> data;
  for (const TensorSpec& spec : specs) data.push_back(any_bytes(spec.bytes()));
  const fs::path folder = test_folder();
  const auto written = write_model(folder, specs, data, *rc::gen::inRange<uint64_t>(1, 100));
  RC_ASSERT(written.has_value());
  const auto weights = ModelWeights::open(folder);
  RC_ASSERT(weights.has_value());
  RC_ASSERT(weights->tensors().size() == specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    const ModelTensor* tensor = weights->find(specs[i].name);
    RC_ASSERT(tensor != nullptr);
    RC_ASSERT(tensor->stored.type.dtype == specs[i].dtype);
    RC_ASSERT(tensor->stored.shape == specs[i].shape);
    const size_t first = *rc::gen::inRange<size_t>(0, data[i].size() + 1);
    std::string rest(data[i].size() - first, ' ');
    RC_ASSERT(weights->read(*tensor, first, std::as_writable_bytes(std::span(rest))).has_value());
    RC_ASSERT(rest == data[i].substr(first));
  }
}

RC_GTEST_PROP(SafetensorsLaw, CutAnywhereIsAnError, ()) {
  const std::vector<TensorSpec> specs = any_specs();
  std::vector<std::string> data;
  for (const TensorSpec& spec : specs) data.push_back(any_bytes(spec.bytes()));
  const fs::path folder = test_folder();
  RC_ASSERT(write_model(folder, specs, data, uint64_t{1} << 40).has_value());
  const uint64_t size = fs::file_size(folder / kModelFile);
  fs::resize_file(folder / kModelFile, *rc::gen::inRange<uint64_t>(0, size));
  RC_ASSERT(!ModelWeights::open(folder).has_value());
}

RC_GTEST_PROP(SafetensorsLaw, ShardsHoldNoMoreThanTheyShould, ()) {
  const std::vector<TensorSpec> specs = any_specs();
  const uint64_t most = *rc::gen::inRange<uint64_t>(1, 100);
  const std::vector<size_t> shard_of = cut_into_shards(specs, most);
  const size_t count = specs.empty() ? 0 : *std::max_element(shard_of.begin(), shard_of.end()) + 1;
  for (size_t shard = 0; shard < count; ++shard) {
    uint64_t bytes = 0;
    size_t tensors = 0;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (shard_of[i] != shard) continue;
      bytes += specs[i].bytes();
      ++tensors;
    }
    RC_ASSERT(tensors == 1 || (tensors > 1 && bytes <= most));
  }
}

}  // namespace
}  // namespace plimsoll
