#include "importers/torch_snapshot/torch_snapshot.h"

#include "importers/torch_snapshot/pickle_reader.h"
#include "importers/torch_snapshot/snapshot_builder.h"

namespace plimsoll {

bool sniff_torch_snapshot(std::string_view first_bytes) {
  return first_bytes.starts_with("\x80") || first_bytes.starts_with("\x1f\x8b");
}

Result<TorchSnapshot> read_torch_snapshot(const std::filesystem::path& path,
                                          const ReadSnapshotOptions& options) {
  PLIMSOLL_TRY(source, ByteSource::open(path));
  return read_torch_snapshot(*source, path.string(), options);
}

Result<TorchSnapshot> read_torch_snapshot(ByteSource& source, const std::string& name,
                                          const ReadSnapshotOptions& options) {
  StringTable strings;
  SnapshotBuilder builder(strings);
  PickleReader reader(source, name, strings, builder);
  reader.on_progress = options.on_progress;
  PLIMSOLL_TRY(root, reader.read());
  source.ensure(1);  // to the end of the gzip stream, where its checksum is
  if (source.error()) return tl::unexpected(*source.error());
  return builder.finish(reader, root);
}

Result<TorchSnapshot> read_torch_snapshot_bytes(std::string_view bytes, const std::string& name) {
  const std::unique_ptr<ByteSource> source = ByteSource::of(bytes);
  return read_torch_snapshot(*source, name);
}

}  // namespace plimsoll
