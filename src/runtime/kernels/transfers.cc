// Bytes between tiers. On the streams for copies and for the disk they go while the caller computes.
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cstring>

#include "runtime/kernels/kernel.h"

namespace plimsoll::runtime {
namespace {

// Tensors of one layout without gaps are copied as bytes.
void copy_bytes(KernelCall& call, const at::Tensor& to, const at::Tensor& from) {
  TORCH_CHECK(to.is_non_overlapping_and_dense() && to.sizes() == from.sizes() &&
                  to.strides() == from.strides() && to.scalar_type() == from.scalar_type(),
              "a copy between tiers of tensors that are laid out differently");
  call.queue([to, from]() -> Result<void> {
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
    return {};
  });
}

void copy_to_host(KernelCall& call) { copy_bytes(call, call.output(0), call.input(0)); }

// Within a tier tensors may be laid out differently.
void copy_in_place(KernelCall& call) {
  const bool is_transfer = call.op().stream == Stream::kCopyIn || call.op().stream == Stream::kCopyOut;
  if (is_transfer) return copy_bytes(call, call.input(0), call.input(1));
  call.input(0).copy_(call.input(1));
}

void read_from_disk(KernelCall& call) {  // of the disk -> of the host
  const at::Tensor to = call.output(0);
  call.queue(
      [to, place = call.place_on_disk(0)] { return place.file->read(place.offset, all_bytes_of(to)); });
}
void write_to_disk(KernelCall& call) {  // of the disk, of the host
  const at::Tensor from = call.input(1);
  call.queue(
      [from, place = call.place_on_disk(0)] { return place.file->write(place.offset, all_bytes_of(from)); });
}

}  // namespace

void add_transfer_kernels(SetKernel set) {
  set(OpKind::kCopyToHost, {copy_to_host});
  set(OpKind::kCopyInPlace, {copy_in_place});
  set(OpKind::kReadFromDisk, {read_from_disk});
  set(OpKind::kWriteToDisk, {write_to_disk});
}

}  // namespace plimsoll::runtime
