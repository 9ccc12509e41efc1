// Notices that a rank is gone while nobody calls a collective. Each rank waits on the connection to the next
// one for a message that is never sent: the wait fails when that process ends, however it does. So of any
// ranks that are gone at least one is seen, as long as one is left.
//
//   NeighbourWatch watch(peers, rank, ranks);
//   if (const std::optional<std::string> seen = watch.seen()) ...
//
// seen() is thread-safe. REQUIRES more than one rank; `peers` outlives it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "runtime/communication/peers.h"

namespace plimsoll::runtime {

class NeighbourWatch {
 public:
  NeighbourWatch(Peers& peers, int64_t rank, int64_t ranks);
  ~NeighbourWatch();  // waits no longer; the connection stays
  NeighbourWatch(const NeighbourWatch&) = delete;
  NeighbourWatch& operator=(const NeighbourWatch&) = delete;

  int64_t neighbour() const { return neighbour_; }
  std::optional<std::string> seen() const;  // why the connection ended; empty: it hasn't

 private:
  void wait();

  const int64_t neighbour_;
  char nothing_ = 0;  // where the message would go: it outlives the message
  Peers::Message message_;
  mutable std::mutex mutex_;
  std::optional<std::string> seen_;
  std::thread thread_;  // last: sees the others made
};

}  // namespace plimsoll::runtime
