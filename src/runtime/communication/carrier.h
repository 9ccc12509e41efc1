// How collectives move their bytes between processes: two ways with the same results.
//
//   make_message_carrier   through connections; ranks may be on several machines
//   make_direct_carrier    reads the other processes' memory where it is (process_vm_readv): one copy and no
//                          sockets but for the exchange of headers. Ranks on one machine, allowed to do so
//
// Not thread-safe. Both throw PeerFailure.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/communication/collective.h"
#include "runtime/communication/peers.h"

namespace plimsoll::runtime {

class Carrier {
 public:
  virtual ~Carrier() = default;
  // Errors: ranks differ in what they call.
  virtual Result<void> run(const Collective& collective) = 0;
};

struct CarrierPlace {
  Peers& peers;
  int64_t rank = 0, ranks = 1;
  std::chrono::milliseconds timeout;  // of a wait for another rank
};

std::unique_ptr<Carrier> make_message_carrier(const CarrierPlace& place);
// Every rank asks for it together. Null on every rank if one of them may not read another's memory.
std::unique_ptr<Carrier> make_direct_carrier(const CarrierPlace& place);

// Each rank begins with its successor, so that not all of them turn to one.
template <typename F>
void for_each_peer(const CarrierPlace& place, F&& f) {
  for (int64_t i = 1; i < place.ranks; ++i) f((place.rank + i) % place.ranks);
}

// What every rank said, by rank. T has no padding and no pointers that matter.
template <typename T>
std::vector<T> exchange(const CarrierPlace& place, const T& own) {
  std::vector<T> all(static_cast<size_t>(place.ranks), own);
  std::vector<Peers::Message> messages;
  for_each_peer(place, [&](int64_t r) {
    messages.push_back(place.peers.receive(r, &all[static_cast<size_t>(r)], sizeof own));
    messages.push_back(place.peers.send(r, &own, sizeof own));
  });
  for (Peers::Message& message : messages) message.wait(place.timeout);
  return all;
}

// Errors: ranks differ in what they call.
template <typename T>
Result<void> compare(const CarrierPlace& place, const std::vector<T>& all) {
  const auto self = static_cast<size_t>(place.rank);
  for (size_t r = 0; r < all.size(); ++r)
    if (const auto wrong = difference(all[self].header, place.rank, all[r].header, static_cast<int64_t>(r)))
      return fail({.message = *wrong});
  return {};
}

}  // namespace plimsoll::runtime
