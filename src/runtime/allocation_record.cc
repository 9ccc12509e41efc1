#include "runtime/allocation_record.h"

#include "trace/simulated_stack.h"

namespace plimsoll::runtime {
namespace {

uint64_t address_of(const void* block) { return reinterpret_cast<uint64_t>(block); }

}  // namespace

Nanoseconds AllocationRecord::now() const {
  const auto since = std::chrono::steady_clock::now() - start_;
  return Nanoseconds{std::chrono::duration_cast<std::chrono::nanoseconds>(since).count()};
}

void AllocationRecord::begin_phase(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  blocks_.begin(name, now());
}

void AllocationRecord::begin_op(const Op& op) {
  const std::scoped_lock lock(mutex_);
  op_ = &op;
}

void AllocationRecord::end_op() {
  const std::scoped_lock lock(mutex_);
  op_ = nullptr;
}

StackId AllocationRecord::stack(std::optional<Category> category) {
  const StackFrame kind = category_frame(name_of(category.value_or(Category::kWorkspace)));
  if (op_ == nullptr) return blocks_.stacks().add({simulated_frame("between ops", kBetweenOps), kind});
  return blocks_.stacks().add(
      {simulated_frame(aten_name_of(op_->kind), program_.module_name(op_->module)), kind});
}

void AllocationRecord::allocated(const void* block, Bytes bytes, std::optional<Category> category) {
  const std::scoped_lock lock(mutex_);
  blocks_.alloc(address_of(block), bytes, stack(category), now());
}

void AllocationRecord::adopted(const void* block, Category category) {
  const std::scoped_lock lock(mutex_);
  if (blocks_.is_live(address_of(block))) blocks_.set_stack(address_of(block), stack(category));
}

void AllocationRecord::freed(const void* block) {
  const std::scoped_lock lock(mutex_);
  if (blocks_.is_live(address_of(block))) blocks_.free(address_of(block), now());  // or from before
}

AllocationTrace AllocationRecord::take() {
  const std::scoped_lock lock(mutex_);
  return blocks_.take(now());
}

}  // namespace plimsoll::runtime
