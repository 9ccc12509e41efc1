#include "runtime/executor.h"

#include <ATen/core/TensorBase.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>
#include <chrono>
#include <exception>
#include <new>
#include <set>
#include <utility>

#include "runtime/host_memory.h"
#include "runtime/kernels/kernel.h"

namespace plimsoll::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

at::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return at::kDouble;
    case DType::kFloat32:
      return at::kFloat;
    case DType::kBFloat16:
      return at::kBFloat16;
    case DType::kInt64:
      return at::kLong;
    default:
      assert(false && "a dtype that framework native does not use");
      return at::kFloat;
  }
}

// Position, hint and whose fault it is stay what they are.
tl::unexpected<Error> failed_in(const Program& p, const Op& op, Error inner) {
  inner.message = fmt::format("{} in {}: {}", aten_name_of(op.kind), p.module_name(op.module), inner.message);
  return fail(std::move(inner));
}

// What libraries throw, as an error. The stack that LibTorch appends is of our own code.
template <typename F>
Result<void> without_exceptions(F&& f) {
  try {
    return f();
  } catch (const c10::Error& e) {
    return fail({.message = e.what_without_backtrace(), .is_internal = true});
  } catch (const std::bad_alloc&) {
    return fail({.message = "not enough memory for what the operator takes besides", .is_internal = true});
  } catch (const std::exception& e) {
    return fail({.message = e.what(), .is_internal = true});
  }
}

// Kinds whose kernel is missing, named once each.
std::vector<std::string_view> without_kernel(const Program& program) {
  std::set<OpKind> missing;
  for (const Op& op : program.ops)
    if (class_of(op.kind) != OpClass::kView && kernel_row(op.kind).run == nullptr) missing.insert(op.kind);
  std::vector<std::string_view> names;
  for (OpKind kind : missing) names.push_back(aten_name_of(kind));
  return names;
}

bool is_like(const at::Tensor& tensor, const TensorInfo& wanted) {
  if (tensor.dim() != wanted.layout.rank || tensor.scalar_type() != scalar_type_of(wanted.dtype))
    return false;
  for (int d = 0; d < wanted.layout.rank; ++d) {
    if (tensor.size(d) != wanted.layout.size(d)) return false;
    if (tensor.size(d) > 1 && tensor.stride(d) != wanted.layout.stride(d)) return false;
  }
  return tensor.storage_offset() == 0;
}

at::Tensor make_tensor(const c10::Storage& storage, const TensorInfo& info, int64_t offset) {
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(scalar_type_of(info.dtype)));
  const auto rank = static_cast<size_t>(info.layout.rank);
  made.unsafeGetTensorImpl()->set_sizes_and_strides({info.layout.sizes.data(), rank},
                                                    {info.layout.strides.data(), rank}, offset);
  return made;
}

}  // namespace

std::span<std::byte> all_bytes_of(const at::Tensor& t) {
  const c10::Storage& storage = t.storage();
  return {static_cast<std::byte*>(storage.mutable_data()), storage.nbytes()};
}

Result<Executor> Executor::make(const Program& program, const ExecutorOptions& options) {
  const std::vector<std::string_view> missing = without_kernel(program);
  if (!missing.empty())
    return fail({.message = fmt::format("no kernel for {}", fmt::join(missing, ", ")),
                 .expected = "a program of framework native"});
  Executor executor(program, options);
  PLIMSOLL_CHECK(executor.open_disk());
  return executor;
}

Executor::Executor(const Program& program, const ExecutorOptions& options)
    : program_(&program),
      options_(options),
      offsets_(program.tensors.size()),
      users_(program.storages.size()),
      storages_(program.storages.size()),
      tensors_(program.tensors.size()),
      pending_(program.storages.size()),
      disk_offsets_(program.storages.size()),
      on_disk_(program.storages.size()) {
  for (uint32_t t = 0; t < program.tensors.size(); ++t)
    users_[program.tensors[t].storage.value].push_back(TensorId{t});
  find_views();
  start_queues();
}

void Executor::start_queues() {
  for (const Op& op : program_->ops) {
    std::unique_ptr<WorkQueue>& queue = queues_.at(static_cast<size_t>(op.stream));
    if (is_transfer(op.stream) && !queue) queue = std::make_unique<WorkQueue>(IdleWatch{});
  }
}

// One place after another for all storages: what is on disk stays there.
Result<void> Executor::open_disk() {
  int64_t end = 0;
  for (size_t s = 0; s < program_->storages.size(); ++s) {
    if (!is_on_disk(StorageId{static_cast<uint32_t>(s)})) continue;
    disk_offsets_[s] = end;
    end += program_->storages[s].bytes.value;
  }
  if (end == 0) return {};
  PLIMSOLL_TRY(file, DiskFile::create(options_.disk_folder, Bytes{end}));
  disk_ = std::make_unique<DiskFile>(std::move(file));
  return {};
}

const std::vector<std::string>& Executor::notes() const {
  static const std::vector<std::string> none;
  return disk_ ? disk_->notes() : none;
}

// Where a view begins follows from the ops that make it.
void Executor::find_views() {
  const Program& p = *program_;
  for (const Op& op : p.ops) {
    if (!shares_input_storage(op.kind) || op.input_count == 0) continue;
    const TensorId base = p.inputs(op)[0];
    int64_t offset = offsets_[base.value];
    const auto* slice = std::get_if<SliceAttr>(&p.attributes_of(op));
    const bool is_part = op.kind == OpKind::kSlice || op.kind == OpKind::kSelect;
    if (is_part) offset += slice->start * p.tensor(base).layout.stride(slice->dim);
    for (TensorId t : p.outputs(op)) {
      offsets_[t.value] = offset;
      const Layout& layout = p.tensor(base).layout;
      if (op.kind == OpKind::kSplit)
        offset += p.tensor(t).layout.size(slice->dim) * layout.stride(slice->dim);
      if (op.kind == OpKind::kUnbind) offset += layout.stride(slice->dim);
    }
  }
}

at::Tensor Executor::tensor(TensorId id) {
  at::Tensor& made = tensors_[id.value];
  if (made.defined()) return made;
  const TensorInfo& info = program_->tensor(id);
  const c10::Storage& storage = storages_[info.storage.value];
  assert(storage && "a tensor whose storage is not live");
  made = make_tensor(storage, info, offsets_[id.value]);
  return made;
}

void Executor::allocate(TensorId id) {
  const StorageId storage = program_->tensor(id).storage;
  if (storages_[storage.value]) return;
  const Storage& wanted = program_->storage(storage);
  if (wanted.tier == Tier::kDisk) {
    on_disk_[storage.value] = std::make_unique<MeasuredAllocator::Elsewhere>(*options_.allocator, wanted.tier,
                                                                             wanted.category, wanted.bytes);
    return;
  }
  if (wanted.tier != Tier::kGpu) {
    storages_[storage.value] = allocate_on_host(wanted, *options_.allocator);
    return;
  }
  const MeasuredAllocator::Tag tag(wanted.category);
  storages_[storage.value] = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), wanted.bytes.value, c10::GetCPUAllocator(), /*resizable=*/false);
}

void Executor::adopt(TensorId id, const at::Tensor& made) {
  const TensorInfo& info = program_->tensor(id);
  const Storage& wanted = program_->storage(info.storage);
  TORCH_CHECK(is_like(made, info), "the operator's result ", made.sizes(), " with strides ", made.strides(),
              " of ", made.scalar_type(), " is not what the program says");
  TORCH_CHECK(static_cast<int64_t>(made.storage().nbytes()) == wanted.bytes.value,
              "the operator's result has ", made.storage().nbytes(), " bytes, the program says ",
              wanted.bytes.value);
  storages_[info.storage.value] = made.storage();
  options_.allocator->adopt(made.storage().data(), wanted.category);
}

Result<void> Executor::wait_for(StorageId id) {
  if (!pending_[id.value].work) return {};
  const Pending pending = std::exchange(pending_[id.value], {});
  const Clock::time_point start = Clock::now();
  Result<void> done = pending.work->wait();
  (pending.is_transfer ? io_seconds : communication_seconds) += seconds_since(start);
  return done;
}

Result<void> Executor::finish() {
  for (uint32_t i = 0; i < pending_.size(); ++i) PLIMSOLL_CHECK(wait_for(StorageId{i}));
  return {};
}

Result<void> Executor::free(StorageId id) {
  PLIMSOLL_CHECK(wait_for(id));
  on_disk_[id.value].reset();
  for (TensorId t : users_[id.value]) tensors_[t.value].reset();
  storages_[id.value] = c10::Storage();
  return {};
}

Result<void> Executor::play(uint32_t section) {
  const Section& s = program_->sections[section];
  for (uint32_t i = s.first_statement; i < s.last_statement; ++i) {
    const Statement& statement = program_->statements[i];
    if (statement.kind == StatementKind::kFree) PLIMSOLL_CHECK(free(StorageId{statement.index}));
    if (statement.kind != StatementKind::kOp) continue;
    const Op& op = program_->ops[statement.index];
    PLIMSOLL_CHECK(check_ranks());
    if (observer != nullptr) observer->begin_op(op);
    PLIMSOLL_CHECK(play_op(op));
    if (observer != nullptr) observer->end_op();
  }
  return {};
}

// The next collective may be minutes away.
Result<void> Executor::check_ranks() const {
  if (options_.communicator == nullptr) return {};
  if (std::optional<Error> failure = options_.communicator->failure()) return fail(*std::move(failure));
  return {};
}

Result<void> Executor::play_op(const Op& op) {
  if (class_of(op.kind) == OpClass::kView) return {};
  const Program& p = *program_;
  if (!is_transfer(op.stream))  // a transfer waits for itself
    for (TensorId t : p.inputs(op)) PLIMSOLL_CHECK(wait_for(p.tensor(t).storage));
  Result<void> done = without_exceptions([&] { return run_kernel(op); });
  if (!done) return failed_in(p, op, std::move(done.error()));
  return {};
}

Result<void> Executor::run_kernel(const Op& op) {
  const KernelRow& row = kernel_row(op.kind);
  if (!row.adopts && !shares_input_storage(op.kind))
    for (TensorId t : program_->outputs(op)) allocate(t);
  KernelCall call(*this, op);
  const Clock::time_point start = Clock::now();
  row.run(call);
  if (op.is_recomputed) recompute_seconds += seconds_since(start);
  return std::move(call.result);
}

void KernelCall::start(std::unique_ptr<Work> work) {
  const std::shared_ptr<Work> shared = std::move(work);  // whichever of its storages is waited for first
  for (TensorId t : executor_.program_->inputs(op_))
    executor_.pending_[executor_.program_->tensor(t).storage.value] = {.work = shared};
}

void KernelCall::queue(std::function<Result<void>()> transfer) {
  WorkQueue* const queue = executor_.queue_of(op_.stream);
  if (queue == nullptr) {
    result = transfer();
    return;
  }
  std::vector<StorageId> storages;
  for (TensorId t : executor_.program_->inputs(op_))
    storages.push_back(executor_.program_->tensor(t).storage);
  for (TensorId t : executor_.program_->outputs(op_))
    storages.push_back(executor_.program_->tensor(t).storage);
  std::vector<std::shared_ptr<Work>> before;
  for (StorageId s : storages)
    if (const auto& pending = executor_.pending_[s.value]; pending.work) before.push_back(pending.work);
  const std::shared_ptr<Work> work =
      queue->submit([before = std::move(before), transfer = std::move(transfer)]() -> Result<void> {
        for (const std::shared_ptr<Work>& earlier : before) PLIMSOLL_CHECK(earlier->wait());
        return transfer();
      });
  for (StorageId s : storages) executor_.pending_[s.value] = {.work = work, .is_transfer = true};
}

DiskPlace KernelCall::place_on_disk(size_t input) const {
  const StorageId storage = executor_.program_->tensor(executor_.program_->inputs(op_)[input]).storage;
  return {.file = executor_.disk_.get(), .offset = executor_.disk_offsets_[storage.value]};
}

Result<at::Tensor> Executor::load(TensorId id) {
  const TensorInfo& info = program_->tensor(id);
  PLIMSOLL_CHECK(wait_for(info.storage));
  if (!is_on_disk(info.storage)) return tensor(id);
  c10::Storage memory;
  PLIMSOLL_CHECK(without_exceptions([&]() -> Result<void> {
    memory = allocate_on_host({.bytes = program_->storage(info.storage).bytes,
                               .category = Category::kTemporary,
                               .tier = Tier::kHost},
                              *options_.allocator);
    return {};
  }));
  const at::Tensor copy = make_tensor(memory, info, 0);
  PLIMSOLL_CHECK(disk_->read(disk_offsets_[info.storage.value], all_bytes_of(copy)));
  return copy;
}

Result<void> Executor::save(TensorId id, const at::Tensor& copy) {
  const StorageId storage = program_->tensor(id).storage;
  if (!is_on_disk(storage)) return {};
  PLIMSOLL_CHECK(wait_for(storage));
  return disk_->write(disk_offsets_[storage.value], all_bytes_of(copy));
}

}  // namespace plimsoll::runtime
