// Feeds arbitrary bytes to the parsers of the parameter server's frames, headers and fields of messages and of the
// connection's own frames, and of its snapshots: manifests and the state of a shard. What is accepted must encode to the
// same bytes; everything else must be an Error. The first byte chooses the parser.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ps/net/shared_stream.h"
#include "ps/protocol/bytes.h"
#include "ps/protocol/shard_state.h"
#include "ps/protocol/snapshot.h"
#include "ps/wire/frame.h"
#include "trireme/error.h"

namespace {

using namespace trireme::ps;  // NOLINT(google-build-using-namespace): a test of one function

void try_header(const std::uint8_t* data) {
  HeaderBytes bytes;
  std::copy_n(reinterpret_cast<const std::byte*>(data), bytes.size(), bytes.begin());
  try {
    const FrameHeader header = parse_header(bytes, 0);
    if (to_bytes(header) != bytes) {
      std::abort();
    }
  } catch (const trireme::Error&) {
    return;
  }
}

/// Kinds of no frame, for what is read from files.
constexpr std::uint8_t kManifestKind = 251;
constexpr std::uint8_t kStateKind = 252;

template <class Record>
void try_record(std::string_view bytes) {
  Record record;
  ByteReader reader(bytes);
  reader(record);
  reader.finish();
  std::string again;
  ByteWriter writer(again);
  writer(record);
  if (again != bytes) {
    std::abort();
  }
}

void try_state(std::string_view bytes) {
  static const UpdateRegistry updates;
  static const KnownTables tables = [] {
    KnownTables known;
    for (const TableLayout layout : {TableLayout::Dense, TableLayout::Sparse}) {
      const TableSpec spec{.name = "w", .keys = 8, .width = 2, .layout = layout};
      known.push_back({spec, updates.make(spec.update, spec.parameters)});
    }
    return known;
  }();
  ShardState state(ShardId{0}, 1, tables);
  state.decode(bytes);
}

/// False if the kind is one of a message.
bool try_other(std::uint8_t kind, std::string_view bytes) {
  switch (kind) {
    case kHelloKind:
      try_record<Hello>(bytes);
      return true;
    case kOfferKind:
      try_record<SharedMemoryOffer>(bytes);
      return true;
    case kManifestKind:
      try_record<SnapshotManifest>(bytes);
      return true;
    case kStateKind:
      try_state(bytes);
      return true;
    default:
      return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size >= kHeaderBytes) {
    try_header(data);
  }
  if (size < 2) {
    return 0;
  }
  const std::string_view fields(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::vector<float> floats(data[1] % 16, 1.0F);
  try {
    if (try_other(data[0], fields)) {
      return 0;
    }
    const Message message = decode(data[0], fields, Values::borrow(floats));
    const Encoded again = encode(message);
    const Encoded twice = encode(decode(again.kind, again.fields, again.floats));
    if (again.kind != data[0] || again.fields != twice.fields) {
      std::abort();
    }
  } catch (const trireme::Error&) {
    return 0;
  }
  return 0;
}
