// The caching allocator once more, slow and obvious: one ordered map of all pieces of memory, searched from
// end to end for everything. What the laws hold CachingHeap against. Written from the rules of
// c10/cuda/CUDACachingAllocator.cpp, not from CachingHeap; each step names the function it follows. For
// tests.
//
// Logs what PyTorch's history would: every alloc, free and segment event, in order.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "allocator/allocator_settings.h"
#include "allocator/caching_heap.h"
#include "allocator/device_memory.h"
#include "allocator/heap.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

class PlainCachingModel {
 public:
  PlainCachingModel(const AllocatorSettings& settings, DeviceMemory& device, const StreamClock& clock)
      : settings_(settings), device_(device), clock_(clock) {}

  PoolIndex open_pool(PrivatePoolOptions options);
  void release_pool(PoolIndex pool) { --pools_[pool].users; }
  void begin_pool(PoolIndex pool, std::optional<HeapStream> only);
  void end_pool(PoolIndex pool);

  // The address, or nothing when out of memory.
  std::optional<uint64_t> alloc(uint64_t requested, HeapStream stream);
  void free(uint64_t address);
  void record_stream(uint64_t address, HeapStream stream);
  void empty_cache() { release_cached(); }

  const std::vector<AllocationEvent>& events() const { return events_; }
  uint64_t reserved() const { return reserved_; }
  int64_t retries() const { return retries_; }
  int64_t ooms() const { return ooms_; }

 private:
  struct Home {  // which blocks a request may have
    PoolIndex pool = 0;
    bool is_small = false;
    HeapStream stream = 0;
    friend auto operator<=>(const Home&, const Home&) = default;
  };
  struct Piece {
    uint64_t size = 0;
    uint64_t requested = 0;
    Home home;
    uint64_t segment = 0;  // address of the segment, or of the range of an expandable one
    bool is_live = false;
    bool is_mapped = true;
    bool is_expandable = false;
    std::set<HeapStream> uses, uses_in_capture;
    int outstanding = 0;   // events
    int64_t searches = 0;  // of its pool when it became free
    bool is_free() const { return !is_live && outstanding == 0 && uses.empty(); }
  };
  using Pieces = std::map<uint64_t, Piece>;  // by address
  using Place = Pieces::iterator;
  struct Pool {
    PrivatePoolOptions options;
    int users = 1;
  };
  struct Capture {
    PoolIndex pool = 0;
    std::optional<HeapStream> only;
  };
  struct Range {
    uint64_t size = 0, page = 0;
  };
  struct Event {
    int64_t passes_at = 0;
    uint64_t address = 0;
  };
  struct Ask {
    uint64_t requested = 0, size = 0;
    Home home;
    bool is_expandable = false;
  };

  Ask ask_of(uint64_t requested, HeapStream stream) const;
  uint64_t rounded(uint64_t size) const;
  uint64_t page_of(const Home& home) const;
  uint64_t max_split() const;
  bool is_gc_on() const { return allowed() && settings_.garbage_collection_threshold > 0; }
  std::optional<uint64_t> allowed() const;

  std::optional<Place> search(const Ask& ask);
  std::vector<Place> free_pieces(const Home& home);
  std::vector<Place> free_pieces_of_pool(PoolIndex pool, bool is_small);
  uint64_t size_it_can_grow_to(Place piece);
  std::optional<Place> from_device(const Ask& ask);
  std::optional<Place> from_pools_that_serve(Ask& ask);
  std::optional<Place> grow_expandable(const Ask& ask);
  std::optional<Place> find_room(const Ask& ask);
  std::optional<Place> reserve_range(const Ask& ask);
  bool map(Place& piece, uint64_t size);
  void hand_out(Place piece, const Ask& ask);
  bool should_split(const Ask& ask, uint64_t rest) const;

  void put_back(uint64_t address);
  Place merge(Place piece);
  std::optional<Place> before(Place piece);
  std::optional<Place> behind(Place piece);
  bool is_whole(Place piece) { return !before(piece) && !behind(piece); }

  void collect_garbage();
  bool release_oversize(const Ask& ask);
  void release_cached();
  void release_all(PoolIndex pool, bool is_small);
  void release(Place piece);
  void unmap(Place piece);

  void insert_events(uint64_t address);
  void insert_deferred_events();
  void process_events(bool waits);
  void log(AllocationAction action, uint64_t address, uint64_t bytes, const Home& home);

  AllocatorSettings settings_;
  DeviceMemory& device_;
  const StreamClock& clock_;
  Pieces pieces_;
  std::map<uint64_t, Range> ranges_;  // by address
  std::vector<Pool> pools_ = {{}};
  std::vector<Capture> captures_;
  std::vector<uint64_t> freed_in_capture_;
  std::map<HeapStream, std::vector<Event>> outstanding_;
  std::map<std::pair<PoolIndex, bool>, int64_t> searches_;  // by pool and whether of small blocks
  std::vector<AllocationEvent> events_;
  uint64_t reserved_ = 0;
  int64_t retries_ = 0, ooms_ = 0;
};

}  // namespace plimsoll
