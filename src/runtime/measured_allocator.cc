#include "runtime/measured_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cassert>
#include <string_view>

#include "runtime/large_blocks.h"

namespace plimsoll::runtime {
namespace {

thread_local std::optional<Category> current_tag;

LargeBlocks& large_blocks() {
  static auto* const blocks = new LargeBlocks;
  return *blocks;
}

MeasuredAllocator& instance() {
  static auto* const allocator = new MeasuredAllocator;  // tensors may outlive main()
  return *allocator;
}

}  // namespace

// c10 asks that a DataPtr's context is its data where raw_deleter() is used, so blocks are found by address.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* base) : base_(base) {}

  c10::DataPtr allocate(size_t bytes) override {
    void* const data = bytes < kLargeBlock ? take_small(bytes) : take_large(bytes);
    if (data != nullptr) instance().add(data, bytes, current_tag);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void release(void* data) {
    if (data == nullptr) return;
    const std::optional<size_t> bytes = instance().remove(data);
    if (bytes.value_or(0) < kLargeBlock)
      c10::GetDefaultCPUAllocator()->raw_deallocate(data);
    else
      large_blocks().give_back(data, *bytes);
  }
  [[noreturn]] static void refuse(size_t bytes) {
    const std::string_view whose = current_tag ? name_of(*current_tag) : "what the operator takes besides";
    C10_THROW_ERROR(OutOfMemoryError, c10::str("not enough memory for ", bytes, " bytes of ", whose));
  }
  void* take_small(size_t bytes) const {
    try {
      return base_->raw_allocate(bytes);
    } catch (const c10::Error&) {
      refuse(bytes);
    }
  }
  static void* take_large(size_t bytes) {
    void* const data = large_blocks().take(bytes);
    if (data == nullptr) refuse(bytes);
    return data;
  }
  c10::Allocator* base_;
};

MeasuredAllocator& MeasuredAllocator::install() {
  static CountingAllocator* const wrapper = [] {
    auto* made = new CountingAllocator(c10::GetDefaultCPUAllocator());
    constexpr uint8_t kPriority = 100;  // above any other: all tensors go through it
    c10::SetCPUAllocator(made, kPriority);
    return made;
  }();
  (void)wrapper;
  return instance();
}

MeasuredAllocator::Tag::Tag(Category category) : outer_(std::exchange(current_tag, category)) {}
MeasuredAllocator::Tag::~Tag() { current_tag = outer_; }

void MeasuredAllocator::set_listener(AllocationListener* listener) {
  const std::scoped_lock lock(mutex_);
  listener_ = listener;
}

void MeasuredAllocator::count(std::optional<Category> category, int64_t bytes) {
  if (!category) {
    scratch_ += Bytes{bytes};
    scratch_peak_ = std::max(scratch_peak_, scratch_);
  } else {
    count(Tier::kGpu, *category, Bytes{bytes});
  }
  with_scratch_peak_ = std::max(with_scratch_peak_, device().total + scratch_);
}

void MeasuredAllocator::count(Tier tier, Category category, Bytes bytes) {
  const auto t = static_cast<size_t>(tier);
  TierBytes& now = current_.at(t);
  now.categories.at(static_cast<size_t>(category)) += bytes;
  now.total += bytes;
  if (now.total > peak_.at(t).total) peak_.at(t) = now;
}

MeasuredAllocator::Elsewhere::Elsewhere(MeasuredAllocator& allocator, Tier tier, Category category,
                                        Bytes bytes)
    : allocator_(allocator), tier_(tier), category_(category), bytes_(bytes) {
  assert(tier != Tier::kGpu);
  const std::scoped_lock lock(allocator_.mutex_);
  allocator_.count(tier_, category_, bytes_);
}
MeasuredAllocator::Elsewhere::~Elsewhere() {
  const std::scoped_lock lock(allocator_.mutex_);
  allocator_.count(tier_, category_, Bytes{} - bytes_);
}

void MeasuredAllocator::add(const void* block, size_t bytes, std::optional<Category> category) {
  const std::scoped_lock lock(mutex_);
  const auto size = static_cast<int64_t>(bytes);
  blocks_[block] = {.bytes = size, .category = category};
  count(category, size);
  if (listener_ != nullptr) listener_->allocated(block, Bytes{size}, category);
}

std::optional<size_t> MeasuredAllocator::remove(const void* block) {
  const std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return std::nullopt;
  const int64_t bytes = found->second.bytes;
  count(found->second.category, -bytes);
  blocks_.erase(found);
  if (listener_ != nullptr) listener_->freed(block);
  return static_cast<size_t>(bytes);
}

void MeasuredAllocator::adopt(const void* block, Category category) {
  const std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(block);
  assert(found != blocks_.end() && "a block that this allocator didn't make");
  if (found == blocks_.end()) return;
  count(found->second.category, -found->second.bytes);
  found->second.category = category;
  count(category, found->second.bytes);
  if (listener_ != nullptr) listener_->adopted(block, category);
}

void MeasuredAllocator::drop_kept() { large_blocks().drop_kept(); }

void MeasuredAllocator::begin_phase() {
  const std::scoped_lock lock(mutex_);
  peak_ = current_;
  scratch_peak_ = scratch_;
  with_scratch_peak_ = device().total + scratch_;
}

MeasuredBytes MeasuredAllocator::current() const {
  const std::scoped_lock lock(mutex_);
  return current_;
}
MeasuredBytes MeasuredAllocator::peak() const {
  const std::scoped_lock lock(mutex_);
  return peak_;
}
Bytes MeasuredAllocator::scratch() const {
  const std::scoped_lock lock(mutex_);
  return scratch_;
}
Bytes MeasuredAllocator::scratch_peak() const {
  const std::scoped_lock lock(mutex_);
  return scratch_peak_;
}
Bytes MeasuredAllocator::with_scratch_peak() const {
  const std::scoped_lock lock(mutex_);
  return with_scratch_peak_;
}

}  // namespace plimsoll::runtime
