// Random sequences of calls on a heap, for the laws.
#pragma once

#include <rapidcheck.h>

#include <optional>
#include <ostream>
#include <vector>

#include "allocator/caching_heap.h"

namespace plimsoll {

struct HeapCall {
  // kPool turns a private pool's use on or off; kRetire leaves it without users.
  enum Kind { kAlloc, kFree, kRecordStream, kEmptyCache, kPool, kRetire } kind = kAlloc;
  int64_t size = 0;
  int which = 0;  // of the live blocks
  HeapStream stream = 0;
  PoolIndex pool = 1;
};

inline void showValue(const HeapCall& call, std::ostream& os) {
  static constexpr const char* kNames[] = {"alloc", "free", "record_stream", "empty_cache", "pool", "retire"};
  os << kNames[call.kind] << "(" << call.size << " B, #" << call.which << ", stream " << call.stream
     << ", pool " << call.pool << ")";
}

inline rc::Gen<int64_t> any_size() {
  const auto whole_mib =
      rc::gen::map(rc::gen::inRange<int64_t>(1, 40), [](int64_t mib) { return mib * kMiB.value; });
  return rc::gen::weightedOneOf<int64_t>({{2, rc::gen::inRange<int64_t>(0, 5000)},
                                          {2, rc::gen::inRange<int64_t>(1, 3 << 20)},
                                          {4, rc::gen::inRange<int64_t>(1 << 20, 70 << 20)},
                                          {2, whole_mib}});
}

inline constexpr PoolIndex kPrivatePools = 2;

inline std::vector<HeapCall> any_calls_of(const rc::Gen<HeapCall::Kind>& kind, int most = 300) {
  const auto call = rc::gen::build<HeapCall>(
      rc::gen::set(&HeapCall::kind, kind), rc::gen::set(&HeapCall::size, any_size()),
      rc::gen::set(&HeapCall::which, rc::gen::inRange(0, 1 << 20)),
      rc::gen::set(&HeapCall::stream, rc::gen::inRange<HeapStream>(0, 3)),
      rc::gen::set(&HeapCall::pool, rc::gen::inRange<PoolIndex>(1, kPrivatePools + 1)));
  return *rc::gen::resize(most, rc::gen::container<std::vector<HeapCall>>(call));
}
inline std::vector<HeapCall> any_calls() {
  using Kind = HeapCall::Kind;
  return any_calls_of(rc::gen::weightedElement<Kind>(
      {{50, Kind::kAlloc}, {40, Kind::kFree}, {8, Kind::kRecordStream}, {1, Kind::kEmptyCache}}));
}
inline std::vector<HeapCall> any_calls_with_pools(int most = 300) {
  using Kind = HeapCall::Kind;
  return any_calls_of(rc::gen::weightedElement<Kind>({{100, Kind::kAlloc},
                                                      {85, Kind::kFree},
                                                      {16, Kind::kRecordStream},
                                                      {2, Kind::kEmptyCache},
                                                      {6, Kind::kPool},
                                                      {1, Kind::kRetire}}),
                      most);
}

inline AllocatorSettings any_settings() {
  AllocatorSettings settings;
  settings.expandable_segments = *rc::gen::element(false, false, true);
  settings.max_split_size =
      *rc::gen::element(std::optional<Bytes>(), std::optional<Bytes>(), std::optional<Bytes>(kMiB * 21),
                        std::optional<Bytes>(kMiB * 33));
  settings.garbage_collection_threshold = *rc::gen::element(0.0, 0.0, 0.5);
  settings.per_process_memory_fraction =
      *rc::gen::element(std::optional<double>(), std::optional<double>(0.5), std::optional<double>(1.0));
  settings.roundup_power2_divisions.fill(*rc::gen::element<uint64_t>(0, 0, 4));
  return settings;
}

inline std::optional<Bytes> any_capacity() {
  return *rc::gen::element(std::optional<Bytes>(), std::optional<Bytes>(kMiB * 150),
                           std::optional<Bytes>(kMiB * 1000));
}

// A clock that moves on by one at each look; work on other streams lasts for five looks.
class SlowStreams final : public StreamClock {
 public:
  Nanoseconds now() const override { return Nanoseconds{++looks_}; }
  Nanoseconds busy_until(HeapStream) const override { return Nanoseconds{looks_ + 5}; }

 private:
  mutable int64_t looks_ = 0;
};

// Which private pools are in use: as a program would have it, a pool is begun once and released once.
struct PoolUse {
  bool is_begun[kPrivatePools + 1] = {};
  bool is_retired[kPrivatePools + 1] = {};
};

template <typename AnyHeap>
void use_pool(const HeapCall& call, AnyHeap& heap, PoolUse& use) {
  if (use.is_retired[call.pool]) return;
  if (call.kind == HeapCall::kRetire && !use.is_begun[call.pool]) {
    heap.release_pool(call.pool);
    use.is_retired[call.pool] = true;
  } else if (call.kind == HeapCall::kPool) {
    const auto only = call.which % 2 == 0 ? std::optional<HeapStream>() : std::optional(call.stream);
    use.is_begun[call.pool] ? heap.end_pool(call.pool) : heap.begin_pool(call.pool, only);
    use.is_begun[call.pool] = !use.is_begun[call.pool];
  }
}

// Makes the calls; after(heap) is called after each.
template <typename After>
void make_calls(const std::vector<HeapCall>& calls, CachingHeap& heap, std::vector<BlockId>& live,
                After after) {
  PoolUse use;
  for (const HeapCall& call : calls) {
    const size_t which = live.empty() ? 0 : static_cast<size_t>(call.which) % live.size();
    if (call.kind == HeapCall::kAlloc) {
      const Allocation block = heap.alloc(Bytes{call.size}, call.stream);
      if (block) live.push_back(*block);
    } else if (call.kind == HeapCall::kEmptyCache) {
      heap.empty_cache();
    } else if (call.kind == HeapCall::kPool || call.kind == HeapCall::kRetire) {
      use_pool(call, heap, use);
    } else if (!live.empty() && call.kind == HeapCall::kRecordStream) {
      heap.record_stream(live[which], call.stream);
    } else if (!live.empty()) {
      heap.free(live[which]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    }
    after(heap);
  }
}

}  // namespace plimsoll
