#include "runtime/communication/roll_call.h"

#include <fmt/format.h>

#include <thread>

namespace plimsoll::runtime {
namespace {

const std::string kFailure = "failure";  // NOLINT(cert-err58-cpp): short enough to be in place

std::string key_of(const std::string& name, int64_t rank) { return fmt::format("{}/{}", name, rank); }

}  // namespace

std::vector<int64_t> RollCall::gather(const std::string& name, std::chrono::milliseconds wait) {
  constexpr std::chrono::milliseconds kLook{20};
  store_->set(key_of(name, rank_), std::string("here"));
  std::vector<int64_t> missing;
  for (int64_t r = 0; r < ranks_; ++r)
    if (r != rank_) missing.push_back(r);
  const auto end = std::chrono::steady_clock::now() + wait;
  while (true) {
    std::erase_if(missing, [&](int64_t r) { return store_->check({key_of(name, r)}); });
    if (missing.empty() || std::chrono::steady_clock::now() >= end) return missing;
    std::this_thread::sleep_for(kLook);
  }
}

bool RollCall::is_called() const { return store_->check({kFailure}); }

std::string RollCall::call(const std::string& what) {
  if (is_called()) return store_->get_to_str(kFailure);
  store_->set(kFailure, what);
  return what;
}

}  // namespace plimsoll::runtime
