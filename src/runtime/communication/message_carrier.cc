// Collectives as messages between ranks.
//
//   all_gather       each rank sends its part to each other, which receives it where it belongs
//   reduce_scatter   each rank sends to each other the slice that that one sums, chunk by chunk
//   all_reduce       the two one after another; small tensors go to everyone whole
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/communication/carrier.h"
#include "runtime/communication/gloo.h"
#include "runtime/communication/rank_order_sum.h"

namespace plimsoll::runtime {
namespace {

// Below, a second round of messages costs more than sending everything to everyone.
constexpr int64_t kSmall = 16384;  // bytes

at::Tensor scratch_of(int64_t bytes) { return at::empty({bytes}, at::TensorOptions(at::kByte)); }
char* data_of(const at::Tensor& t) { return static_cast<char*>(t.mutable_data_ptr()); }
int64_t bytes_of(const Collective& c, int64_t elements) {
  return elements * static_cast<int64_t>(c.whole.element_size());
}

struct Hello {
  CollectiveHeader header;
};

// The messages of one collective. Declared after the memory that they write: when one of them fails, the
// others are given up before that memory is.
class Messages {
 public:
  explicit Messages(const CarrierPlace& place) : place_(place) {}
  void send(int64_t to, const void* bytes, int64_t count) {
    if (count > 0) under_way_.push_back(place_.peers.send(to, bytes, count));
  }
  void receive(int64_t from, void* bytes, int64_t count) {
    if (count > 0) under_way_.push_back(place_.peers.receive(from, bytes, count));
  }
  void finish() {
    for (Peers::Message& message : under_way_) message.wait(place_.timeout);
    under_way_.clear();
  }

 private:
  const CarrierPlace& place_;
  std::vector<Peers::Message> under_way_;
};

class MessageCarrier final : public Carrier {
 public:
  explicit MessageCarrier(const CarrierPlace& place)
      : place_(place), rank_(place.rank), ranks_(place.ranks) {}
  Result<void> run(const Collective& c) override;

 private:
  struct Sum;
  void all_gather(const Collective& c);
  void gather_slices(const Collective& c);
  void sum_whole(const Collective& c);
  void reduce(const Collective& c);
  void post(Sum& sum, int64_t chunk);
  void add(Sum& sum, int64_t chunk);

  const CarrierPlace place_;
  const int64_t rank_, ranks_;
};

Result<void> MessageCarrier::run(const Collective& c) {
  PLIMSOLL_CHECK(compare(place_, exchange(place_, Hello{c.header})));
  switch (c.header.kind) {
    case CollectiveKind::kAllGather:
      all_gather(c);
      break;
    case CollectiveKind::kReduceScatter:
      reduce(c);
      break;
    case CollectiveKind::kAllReduce:
      if (static_cast<int64_t>(c.whole.nbytes()) <= kSmall) {
        sum_whole(c);
      } else {
        reduce(c);
        gather_slices(c);
      }
      break;
  }
  return {};
}

void MessageCarrier::all_gather(const Collective& c) {
  const int64_t n = c.part.numel(), bytes = bytes_of(c, n);
  Messages messages(place_);
  for_each_peer(place_, [&](int64_t r) {
    messages.receive(r, c.bytes_of_whole(r * n), bytes);
    messages.send(r, c.part.const_data_ptr(), bytes);
  });
  char* const own = c.bytes_of_whole(rank_ * n);
  if (own != c.part.const_data_ptr()) std::memcpy(own, c.part.const_data_ptr(), static_cast<size_t>(bytes));
  messages.finish();
}

void MessageCarrier::gather_slices(const Collective& c) {
  const Slice own = slice_of(c.header.elements, rank_, ranks_);
  Messages messages(place_);
  for_each_peer(place_, [&](int64_t r) {
    const Slice slice = slice_of(c.header.elements, r, ranks_);
    messages.receive(r, c.bytes_of_whole(slice.first), bytes_of(c, slice.elements()));
    messages.send(r, c.bytes_of_whole(own.first), bytes_of(c, own.elements()));
  });
  messages.finish();
}

void MessageCarrier::sum_whole(const Collective& c) {
  const auto bytes = static_cast<int64_t>(c.whole.nbytes());
  const at::Tensor received = scratch_of(bytes * ranks_);
  Messages messages(place_);
  std::vector<const void*> terms(static_cast<size_t>(ranks_), c.whole.const_data_ptr());
  for_each_peer(place_, [&](int64_t r) {
    char* const place = data_of(received) + r * bytes;
    terms[static_cast<size_t>(r)] = place;
    messages.receive(r, place, bytes);
    messages.send(r, c.whole.const_data_ptr(), bytes);
  });
  messages.finish();
  sum_in_rank_order(c.whole.scalar_type(), c.whole.mutable_data_ptr(), terms, c.whole.numel());
}

// Chunk i of every slice is under way while chunk i - 1 is added.
struct MessageCarrier::Sum {
  const Collective& c;
  Slice own;
  int64_t chunk = 0;   // elements
  at::Tensor scratch;  // [2][ranks - 1][chunk]
  Messages sent;
  std::array<Messages, 2> arriving;

  Slice part_of(const Slice& slice, int64_t i) const {
    return {.first = std::min(slice.first + i * chunk, slice.last),
            .last = std::min(slice.first + (i + 1) * chunk, slice.last)};
  }
  char* place(int64_t i, int64_t peer, int64_t rank, int64_t ranks) const {
    const int64_t slot = peer < rank ? peer : peer - 1;
    return data_of(scratch) + bytes_of(c, ((i % 2) * (ranks - 1) + slot) * chunk);
  }
};

void MessageCarrier::post(Sum& s, int64_t i) {
  const int64_t n = s.c.header.elements;
  const Slice own = s.part_of(s.own, i);
  for_each_peer(place_, [&](int64_t r) {
    s.arriving.at(static_cast<size_t>(i % 2))
        .receive(r, s.place(i, r, rank_, ranks_), bytes_of(s.c, own.elements()));
    const Slice theirs = s.part_of(slice_of(n, r, ranks_), i);
    s.sent.send(r, s.c.bytes_of_whole(theirs.first), bytes_of(s.c, theirs.elements()));
  });
}

void MessageCarrier::add(Sum& s, int64_t i) {
  const Slice own = s.part_of(s.own, i);
  s.arriving.at(static_cast<size_t>(i % 2)).finish();
  std::vector<const void*> terms;
  for (int64_t r = 0; r < ranks_; ++r)
    terms.push_back(r == rank_ ? s.c.bytes_of_whole(own.first) : s.place(i, r, rank_, ranks_));
  const bool has_part = s.c.part.defined();
  char* const out =
      has_part ? data_of(s.c.part) + bytes_of(s.c, own.first - s.own.first) : s.c.bytes_of_whole(own.first);
  sum_in_rank_order(s.c.whole.scalar_type(), out, terms, own.elements());
}

void MessageCarrier::reduce(const Collective& c) {
  const int64_t n = c.header.elements;
  const int64_t longest = (n + ranks_ - 1) / ranks_;
  Sum s{.c = c,
        .own = slice_of(n, rank_, ranks_),
        .scratch = {},
        .sent = Messages(place_),
        .arriving = {Messages(place_), Messages(place_)}};
  s.chunk = std::min(longest, kSumChunk / static_cast<int64_t>(c.whole.element_size()));
  if (s.chunk == 0) return;
  s.scratch = scratch_of(bytes_of(c, 2 * (ranks_ - 1) * s.chunk));
  const int64_t chunks = (longest + s.chunk - 1) / s.chunk;
  post(s, 0);
  for (int64_t i = 0; i < chunks; ++i) {
    if (i + 1 < chunks) post(s, i + 1);
    add(s, i);
  }
  s.sent.finish();
}

}  // namespace

std::unique_ptr<Carrier> make_message_carrier(const CarrierPlace& place) {
  return std::make_unique<MessageCarrier>(place);
}

}  // namespace plimsoll::runtime
