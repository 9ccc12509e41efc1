#include "weights/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <set>
#include <utility>

namespace plimsoll {
namespace {

uint64_t data_bytes(const SafetensorsHeader& header) {
  return header.tensors.empty() ? 0 : header.tensors.back().end;
}

}  // namespace

uint64_t TensorSpec::bytes() const { return stored_bytes(stored_type_of(dtype), shape).value(); }

SafetensorsHeader header_of(const std::vector<TensorSpec>& specs, const SafetensorsMetadata& metadata) {
  SafetensorsHeader header{.metadata = metadata, .tensors = {}};
  uint64_t begin = 0;
  for (const TensorSpec& spec : specs) {
    const uint64_t end = begin + spec.bytes();
    header.tensors.push_back({.name = spec.name,
                              .type = stored_type_of(spec.dtype),
                              .shape = spec.shape,
                              .begin = begin,
                              .end = end});
    begin = end;
  }
  return header;
}

Result<void> check_specs(const std::vector<TensorSpec>& specs, const std::string& file) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 62;
  std::set<std::string_view> names;
  uint64_t sum = 0;
  for (const TensorSpec& spec : specs) {
    const auto refuse = [&](std::string message, std::string expected) {
      return fail({.position = {.file = file, .key = spec.name},
                   .message = std::move(message),
                   .expected = std::move(expected)});
    };
    if (spec.name == "__metadata__")
      return refuse("can't be a tensor's name", "a name that the format doesn't use");
    if (!names.insert(spec.name).second) return refuse("is there twice", "every tensor once");
    if (std::any_of(spec.shape.begin(), spec.shape.end(), [](int64_t dim) { return dim < 0; }))
      return refuse("has a negative size", "sizes from 0 on");
    const auto bytes = stored_bytes(stored_type_of(spec.dtype), spec.shape);
    sum += bytes.value_or(kMostBytes);
    if (!bytes || sum >= kMostBytes) return refuse("is too large", "tensors of less than 2^62 bytes in all");
  }
  return {};
}

std::vector<TensorSpec> in_reference_order(std::vector<TensorSpec> specs) {
  std::sort(specs.begin(), specs.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return std::pair(serializer_rank(stored_type_of(a.dtype)), std::string_view(a.name)) <
           std::pair(serializer_rank(stored_type_of(b.dtype)), std::string_view(b.name));
  });
  return specs;
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::filesystem::path& path,
                                                    const std::vector<TensorSpec>& specs,
                                                    const SafetensorsMetadata& metadata) {
  PLIMSOLL_CHECK(check_specs(specs, path.string()));
  const SafetensorsHeader header = header_of(specs, metadata);
  const std::string text = safetensors_header_text(header);
  if (text.size() - kHeaderLengthBytes > kMostHeaderBytes)
    return fail({.position = {.file = path.string()},
                 .message = fmt::format("would have a header of {} bytes", text.size()),
                 .expected = fmt::format("at most {}; write more and smaller files", kMostHeaderBytes)});
  PLIMSOLL_TRY(file, ReplacingFile::create(path, text.size() + data_bytes(header)));
  PLIMSOLL_CHECK(file.write(std::as_bytes(std::span(text))));
  return SafetensorsWriter(std::move(file), data_bytes(header));
}

Result<void> SafetensorsWriter::write(std::span<const std::byte> piece) {
  assert(piece.size() <= data_left_ && "no more bytes than the tensors have");
  data_left_ -= piece.size();
  return file_.write(piece);
}

Result<void> SafetensorsWriter::sync() {
  assert(data_left_ == 0 && "all data was written");
  return file_.sync();
}

Result<void> SafetensorsWriter::take_name() { return file_.take_name(); }

Result<void> SafetensorsWriter::finish() {
  PLIMSOLL_CHECK(sync());
  return take_name();
}

}  // namespace plimsoll
