#include "runtime/communication/neighbour_watch.h"

#include <chrono>
#include <utility>

namespace plimsoll::runtime {
namespace {

// Longer than any run. Gloo takes a wait that is over for a failure of all connections.
constexpr std::chrono::hours kForEver{24 * 365 * 10};

}  // namespace

NeighbourWatch::NeighbourWatch(Peers& peers, int64_t rank, int64_t ranks)
    : neighbour_((rank + 1) % ranks),
      message_(peers.receive_nothing(neighbour_, &nothing_)),
      thread_([this] { wait(); }) {}

NeighbourWatch::~NeighbourWatch() {
  message_.give_up();
  thread_.join();
}

void NeighbourWatch::wait() {
  std::string why = "it sent what nobody sends";
  try {
    message_.wait(kForEver);
  } catch (const std::exception& e) {
    why = e.what();
  }
  const std::scoped_lock lock(mutex_);
  seen_ = std::move(why);
}

std::optional<std::string> NeighbourWatch::seen() const {
  const std::scoped_lock lock(mutex_);
  return seen_;
}

}  // namespace plimsoll::runtime
