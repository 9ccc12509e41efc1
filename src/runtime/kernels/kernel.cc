#include "runtime/kernels/kernel.h"

#include <array>

namespace plimsoll::runtime {
namespace {

#define X(kind, name, cls) +1
constexpr size_t kKinds = 0 PLIMSOLL_OPS(X);
#undef X

std::array<KernelRow, kKinds>& table() {
  static std::array<KernelRow, kKinds> rows;
  return rows;
}

void set_row(OpKind kind, KernelRow row) { table()[static_cast<size_t>(kind)] = row; }

bool fill_table() {
  add_pointwise_kernels(set_row);
  add_network_kernels(set_row);
  add_fused_kernels(set_row);
  add_optimizer_kernels(set_row);
  add_adafactor_kernels(set_row);
  add_collective_kernels(set_row);
  add_transfer_kernels(set_row);
  return true;
}

}  // namespace

const KernelRow& kernel_row(OpKind kind) {
  static const bool is_filled = fill_table();
  (void)is_filled;
  return table()[static_cast<size_t>(kind)];
}

}  // namespace plimsoll::runtime
