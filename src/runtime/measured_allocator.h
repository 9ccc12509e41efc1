// What LibTorch really allocates on the CPU: a wrapper around its tensor allocator that counts every block
// under the tag which its thread carries at that moment. The executor tags what it makes for a storage of the
// program with that storage's category; everything else that an operator allocates is its scratch. What the
// program keeps on other tiers doesn't come from that allocator (host_memory.h, disk_file.h), which report
// what they take and give back; it is counted by tier.
//
//   MeasuredAllocator& allocator = MeasuredAllocator::install();   // once, before the first tensor
//   allocator.begin_phase();
//   { const MeasuredAllocator::Tag tag(Category::kActivation); ... at::empty(...) ... }
//   allocator.peak()[0].total;   // of the device, bytes as they were asked for
//
// Large blocks are from large_blocks.h, others from LibTorch's own allocator.
//
// Thread-safe. There is one CPU allocator in a process, hence one of these. Does not see what libraries take
// from the system by themselves (MKL's buffers, compiled kernels).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/units.h"
#include "program/program.h"
#include "simulator/exact_peaks.h"

namespace plimsoll::runtime {

using MeasuredBytes = BytesByTier;  // without scratch

// Is told of every block as it comes and goes, from whichever thread; calls don't overlap.
class AllocationListener {
 public:
  virtual ~AllocationListener() = default;
  virtual void allocated(const void* block, Bytes bytes, std::optional<Category> category) = 0;
  virtual void adopted(const void* block, Category category) = 0;
  virtual void freed(const void* block) = 0;
};

class MeasuredAllocator {
 public:
  static MeasuredAllocator& install();

  void set_listener(AllocationListener* listener);  // null: none. It must live until then

  // Blocks that this thread allocates while a Tag lives have its category; without one they are scratch.
  class Tag {
   public:
    explicit Tag(Category category);
    ~Tag();
    Tag(const Tag&) = delete;
    Tag& operator=(const Tag&) = delete;

   private:
    std::optional<Category> outer_;
  };

  // Bytes taken on another tier, until it ends.
  class Elsewhere {
   public:
    Elsewhere(MeasuredAllocator& allocator, Tier tier, Category category, Bytes bytes);
    ~Elsewhere();
    Elsewhere(const Elsewhere&) = delete;
    Elsewhere& operator=(const Elsewhere&) = delete;

   private:
    MeasuredAllocator& allocator_;
    const Tier tier_;
    const Category category_;
    const Bytes bytes_;
  };

  // A block that an operator allocated for its result belongs to the program from now on. REQUIRES it is
  // live.
  void adopt(const void* block, Category category);

  static void drop_kept();  // gives blocks that nobody uses back to the system

  void begin_phase();  // peaks begin anew
  MeasuredBytes current() const;
  MeasuredBytes peak() const;       // since begin_phase, of each tier where its total was highest first
  Bytes scratch() const;            // now
  Bytes scratch_peak() const;       // since begin_phase
  Bytes with_scratch_peak() const;  // highest total + scratch since begin_phase

 private:
  friend class CountingAllocator;
  void add(const void* block, size_t bytes, std::optional<Category> category);
  // Its bytes; nothing of a block that was allocated before the wrapper was installed.
  std::optional<size_t> remove(const void* block);
  void count(std::optional<Category> category, int64_t bytes);
  void count(Tier tier, Category category, Bytes bytes);
  const TierBytes& device() const { return current_[static_cast<size_t>(Tier::kGpu)]; }

  struct Block {
    int64_t bytes = 0;
    std::optional<Category> category;  // empty: scratch
  };
  mutable std::mutex mutex_;
  AllocationListener* listener_ = nullptr;
  std::unordered_map<const void*, Block> blocks_;
  MeasuredBytes current_{}, peak_{};
  Bytes scratch_, scratch_peak_, with_scratch_peak_;
};

}  // namespace plimsoll::runtime
