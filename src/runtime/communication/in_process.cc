#include "runtime/communication/in_process.h"

#include <fmt/format.h>

#include <cassert>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include "runtime/communication/collective.h"
#include "runtime/communication/queued_communicator.h"
#include "runtime/communication/rank_order_sum.h"

namespace plimsoll::runtime {

// Where the ranks wait for each other. What a rank brings is there from its arrival at one meeting until all
// have come to the next.
struct InProcessGroup::Meeting {
  Meeting(int64_t ranks, std::chrono::milliseconds wait)
      : timeout(wait),
        brought(static_cast<size_t>(ranks)),
        headers(brought.size()),
        has_come(brought.size()),
        is_gone(brought.size()) {}

  Result<void> come(int64_t rank, const Collective& collective) {
    std::unique_lock lock(mutex);
    const auto r = static_cast<size_t>(rank);
    brought[r] = &collective;
    headers[r] = collective.header;
    has_come[r] = true;
    const uint64_t now = round;
    if (const std::optional<size_t> absent = find_absent(); !absent)
      begin_next_round();
    else
      changed.wait_for(lock, timeout, [&] { return round != now || is_gone[*find_absent()]; });
    if (round != now) return {};
    const size_t absent = *find_absent();
    return fail({.message = fmt::format("rank {} {}: {}", absent,
                                        is_gone[absent] ? "is gone" : "does not come in time",
                                        collective.header.to_text())});
  }
  void leave(int64_t rank) {
    const std::scoped_lock lock(mutex);
    is_gone[static_cast<size_t>(rank)] = true;
    changed.notify_all();
  }
  int64_t ranks() const { return static_cast<int64_t>(brought.size()); }

  const std::chrono::milliseconds timeout;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t round = 0;
  std::vector<const Collective*> brought;
  std::vector<CollectiveHeader> headers;  // outlive what was brought, where ranks differ
  std::vector<bool> has_come, is_gone;

 private:
  // One that is gone before one that is late.
  std::optional<size_t> find_absent() const {
    std::optional<size_t> late;
    for (size_t r = 0; r < has_come.size(); ++r) {
      if (has_come[r]) continue;
      if (is_gone[r]) return r;
      if (!late) late = r;
    }
    return late;
  }
  void begin_next_round() {
    has_come.assign(has_come.size(), false);
    ++round;
    changed.notify_all();
  }
};

class InProcessGroup::Rank final : public QueuedCommunicator {
 public:
  Rank(std::shared_ptr<Meeting> meeting, int64_t rank) : meeting_(std::move(meeting)), rank_(rank) {
    begin({});
  }
  ~Rank() override {
    end();
    meeting_->leave(rank_);
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return meeting_->ranks(); }

 private:
  Result<void> run(const Collective& c) override {
    PLIMSOLL_CHECK(meeting_->come(rank_, c));
    PLIMSOLL_CHECK(compare(c));
    if (c.header.kind == CollectiveKind::kAllGather)
      gather(c);
    else
      reduce(c);
    PLIMSOLL_CHECK(meeting_->come(rank_, c));  // nobody reads this rank's tensors from here on, but the sums
    if (c.header.kind != CollectiveKind::kAllReduce) return {};
    collect_sums(c);
    return meeting_->come(rank_, c);
  }

  const Collective& of(int64_t rank) const { return *meeting_->brought[static_cast<size_t>(rank)]; }

  const CollectiveHeader& header_of(int64_t rank) const {
    return meeting_->headers[static_cast<size_t>(rank)];
  }

  Result<void> compare(const Collective& c) const {
    for (int64_t r = 0; r < size(); ++r)
      if (const auto wrong = difference(c.header, rank_, header_of(r), r)) return fail({.message = *wrong});
    return {};
  }

  void gather(const Collective& c) const {
    const int64_t n = c.part.numel();
    for (int64_t r = 0; r < size(); ++r)
      if (const void* from = of(r).part.const_data_ptr(); from != c.bytes_of_whole(r * n))
        std::memcpy(c.bytes_of_whole(r * n), from, c.part.nbytes());
  }

  // Each rank writes its own slice only, which no other reads.
  void reduce(const Collective& c) const {
    const Slice own = slice_of(c.header.elements, rank_, size());
    std::vector<const void*> terms;
    for (int64_t r = 0; r < size(); ++r) terms.push_back(of(r).bytes_of_whole(own.first));
    void* const out = c.part.defined() ? c.part.mutable_data_ptr() : c.bytes_of_whole(own.first);
    sum_in_rank_order(c.whole.scalar_type(), out, terms, own.elements());
  }

  void collect_sums(const Collective& c) const {
    for (int64_t r = 0; r < size(); ++r) {
      const Slice slice = slice_of(c.header.elements, r, size());
      const auto bytes = static_cast<size_t>(slice.elements()) * c.whole.element_size();
      if (r != rank_) std::memcpy(c.bytes_of_whole(slice.first), of(r).bytes_of_whole(slice.first), bytes);
    }
  }

  const std::shared_ptr<Meeting> meeting_;
  const int64_t rank_;
};

InProcessGroup::InProcessGroup(int64_t ranks, std::chrono::milliseconds timeout)
    : meeting_(std::make_shared<Meeting>(ranks, timeout)) {}
InProcessGroup::~InProcessGroup() = default;

std::unique_ptr<Communicator> InProcessGroup::join(int64_t rank) const {
  assert(rank >= 0 && rank < meeting_->ranks());
  return std::make_unique<Rank>(meeting_, rank);
}

}  // namespace plimsoll::runtime
