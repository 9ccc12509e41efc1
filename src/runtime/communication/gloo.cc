#include "runtime/communication/gloo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "runtime/communication/carrier.h"
#include "runtime/communication/collective.h"
#include "runtime/communication/neighbour_watch.h"
#include "runtime/communication/peers.h"
#include "runtime/communication/queued_communicator.h"
#include "runtime/communication/roll_call.h"

namespace plimsoll::runtime {
namespace {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

// What LibTorch says without where in its sources, advice and its own stack.
std::string plain(std::string text) {
  for (const char* end : {"\n", ". This is typically"}) text.resize(std::min(text.size(), text.find(end)));
  if (text.starts_with("[/")) text.erase(0, text.find("] ") + 2);
  return text;
}

std::string names_of(const std::vector<int64_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

StorePointer open_store(const ProcessPlace& place, std::chrono::milliseconds timeout) {
  if (const auto* file = std::get_if<FileRendezvous>(&place.rendezvous)) {
    auto store = c10::make_intrusive<c10d::FileStore>(file->path, static_cast<int>(place.size));
    store->setTimeout(timeout);
    return store;
  }
  const auto& tcp = std::get<TcpRendezvous>(place.rendezvous);
  c10d::TCPStoreOptions options;
  options.port = tcp.port;
  options.isServer = place.rank == 0 && !tcp.has_server;
  options.waitWorkers = false;
  options.timeout = timeout;
  return c10::make_intrusive<c10d::PrefixStore>("plimsoll/" + tcp.prefix,
                                                c10::make_intrusive<c10d::TCPStore>(tcp.host, options));
}

std::string text_of(const ProcessPlace& place) {
  if (const auto* file = std::get_if<FileRendezvous>(&place.rendezvous)) return file->path;
  const auto& tcp = std::get<TcpRendezvous>(place.rendezvous);
  return fmt::format("{}:{}", tcp.host, tcp.port);
}

class GlooCommunicator final : public QueuedCommunicator {
 public:
  GlooCommunicator(const ProcessPlace& place, const GlooOptions& options, StorePointer store,
                   std::unique_ptr<Peers> peers)
      : place_(place),
        options_(options),
        roll_(std::move(store), place.rank, place.size),
        peers_(std::move(peers)),
        carrier_(make_carrier()) {
    watch_.emplace(*peers_, place.rank, place.size);
    begin({.look = [this] { return look(); }});
  }
  ~GlooCommunicator() override {
    roll_.give_up();
    end();
  }

  int64_t rank() const override { return place_.rank; }
  int64_t size() const override { return place_.size; }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  std::unique_ptr<Carrier> make_carrier() {
    const CarrierPlace place{
        .peers = *peers_, .rank = place_.rank, .ranks = place_.size, .timeout = options_.timeout};
    if (!options_.may_read_directly || !place_.is_on_one_machine()) return make_message_carrier(place);
    if (std::unique_ptr<Carrier> direct = make_direct_carrier(place)) return direct;
    notes_.emplace_back(
        "the ranks may not read each other's memory (process_vm_readv is refused, as containers and Yama's "
        "ptrace_scope do): collectives go through sockets, which takes longer");
    return make_message_carrier(place);
  }

  Result<void> run(const Collective& c) override {
    Result<void> done;
    try {
      done = carrier_->run(c);
    } catch (const PeerFailure& e) {
      return diagnose(fmt::format("{}: rank {} noticed it at rank {}: {}", c.header.to_text(), place_.rank,
                                  e.peer, plain(e.what())));
    } catch (const std::exception& e) {
      return diagnose(fmt::format("{}: {}", c.header.to_text(), plain(e.what())));
    }
    if (!done) disconnect();  // the others find the same difference
    return done;
  }

  // While nothing runs. Errors: another rank has failed. A connection may have ended because that rank knows
  // of a failure: it has until the next look to say which.
  Result<void> look() {
    const std::optional<std::string> seen = watch_->seen();
    const bool was_seen = std::exchange(has_seen_end_, seen.has_value());
    const std::string noticed = !seen ? ""
                                      : fmt::format("rank {} noticed it at rank {}: {}", place_.rank,
                                                    watch_->neighbour(), plain(*seen));
    if (seen && was_seen) return diagnose(noticed);
    try {
      if (!roll_.is_called()) return {};
    } catch (const std::exception& e) {
      disconnect();
      return lost_store(noticed, e.what());
    }
    return diagnose(noticed);
  }

  // The other ranks see this one's connections end, and call the roll too.
  void disconnect() {
    watch_.reset();
    carrier_.reset();
    peers_.reset();
  }

  // The reason is in the store before connections end by which others notice.
  Result<void> diagnose(const std::string& what) {
    try {
      const std::string first = roll_.call(what);
      disconnect();
      const std::vector<int64_t> missing = roll_.find_missing(options_.roll_call);
      if (missing.empty())
        return fail({.message = fmt::format("a collective failed though all ranks are there ({})", first),
                     .is_internal = true});
      return fail({.message = fmt::format("{} {} gone ({})", names_of(missing),
                                          missing.size() == 1 ? "is" : "are", first),
                   .is_internal = true});
    } catch (const std::exception& e) {
      disconnect();
      return lost_store(what, e.what());
    }
  }

  // `noticed`: what the rank saw before; empty: nothing.
  Result<void> lost_store(const std::string& noticed, const std::string& what) const {
    const auto* tcp = std::get_if<TcpRendezvous>(&place_.rendezvous);
    const bool is_of_rank_0 = tcp != nullptr && !tcp->has_server;
    return fail({.message = fmt::format("the job's store{} is gone ({} does not answer: {}){}{}",
                                        is_of_rank_0 ? " on rank 0" : "", text_of(place_), plain(what),
                                        noticed.empty() ? "" : "; ", noticed),
                 .is_internal = true});
  }

  const ProcessPlace place_;
  const GlooOptions options_;
  RollCall roll_;
  std::vector<std::string> notes_;
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<Carrier> carrier_;
  std::optional<NeighbourWatch> watch_;
  bool has_seen_end_ = false;  // of the watched connection, at the last look
};

class AloneCommunicator final : public Communicator {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  std::unique_ptr<Work> all_reduce(at::Tensor&) override { return std::make_unique<Done>(); }
  std::unique_ptr<Work> reduce_scatter(at::Tensor& part, at::Tensor& whole) override {
    return copy(part, whole);
  }
  std::unique_ptr<Work> all_gather(at::Tensor& whole, at::Tensor& part) override { return copy(whole, part); }
  double seconds_under_way() const override { return 0; }
  std::optional<Error> failure() const override { return std::nullopt; }

 private:
  struct Done final : Work {
    Result<void> wait() override { return {}; }
  };
  static std::unique_ptr<Work> copy(at::Tensor& to, const at::Tensor& from) {
    to.copy_(from);
    return std::make_unique<Done>();
  }
};

}  // namespace

Result<std::unique_ptr<Communicator>> make_gloo_communicator(const ProcessPlace& place,
                                                             const GlooOptions& options) {
  if (place.size == 1) return std::make_unique<AloneCommunicator>();
  try {
    StorePointer store = open_store(place, options.start_timeout);
    const std::vector<int64_t> missing =
        RollCall(store, place.rank, place.size).gather("start", options.start_timeout);
    if (!missing.empty())
      return fail({.message = fmt::format("{} did not come to {} within {} s", names_of(missing),
                                          text_of(place), options.start_timeout.count() / 1000),
                   .is_internal = true});
    auto peers = std::make_unique<Peers>(store, place, options.start_timeout);
    return std::make_unique<GlooCommunicator>(place, options, std::move(store), std::move(peers));
  } catch (const std::exception& e) {
    return fail({.message = fmt::format("the ranks can't be connected through {}: {}", text_of(place),
                                        plain(e.what())),
                 .is_internal = true});
  }
}

}  // namespace plimsoll::runtime
