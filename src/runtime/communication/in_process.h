// Ranks that are threads of one process, for tests: they read each other's tensors where they are.
//
//   const InProcessGroup group(4, std::chrono::seconds(10));
//   std::thread([&] { const auto communicator = group.join(rank); ... });
//
// Thread-safe. A rank whose communicator is destroyed is gone: collectives of the others fail and name it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "runtime/communicator.h"

namespace plimsoll::runtime {

class InProcessGroup {
 public:
  InProcessGroup(int64_t ranks, std::chrono::milliseconds timeout);
  ~InProcessGroup();

  // Each rank once; the communicator may outlive the group.
  std::unique_ptr<Communicator> join(int64_t rank) const;

 private:
  struct Meeting;
  class Rank;
  std::shared_ptr<Meeting> meeting_;
};

}  // namespace plimsoll::runtime
