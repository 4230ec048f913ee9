// Feeds arbitrary bytes to the parser of the parameter server's frames: a header, or the fields of a message of any kind.
// An accepted message must encode to the same bytes; everything else must be an Error.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

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
