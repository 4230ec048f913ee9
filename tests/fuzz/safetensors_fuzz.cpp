// Feeds arbitrary bytes to the safetensors reader. Accepted tensors must be inside the file and unchanged when written
// and read again; everything else must be an Error.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "trireme/error.h"
#include "trireme/safetensors.h"

namespace {

using namespace trireme;  // NOLINT(google-build-using-namespace): a test of one function

std::vector<std::byte> rewritten(const SafetensorsContent& content) {
  std::vector<TensorSpec> specs;
  for (const TensorView& tensor : content.tensors) {
    specs.push_back(tensor.spec);
  }
  std::vector<std::byte> out;
  SafetensorsWriter writer(
      [&](std::span<const std::byte> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); },
      specs, content.metadata);
  for (const TensorView& tensor : content.tensors) {
    writer.add(tensor.bytes);
  }
  writer.finish();
  return out;
}

bool same(const SafetensorsContent& a, const SafetensorsContent& b) {
  bool equal = a.metadata == b.metadata && a.tensors.size() == b.tensors.size();
  for (std::size_t i = 0; equal && i < a.tensors.size(); ++i) {
    equal = a.tensors[i].spec == b.tensors[i].spec &&
            std::ranges::equal(a.tensors[i].bytes, b.tensors[i].bytes);
  }
  return equal;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  SafetensorsContent content;
  try {
    content = parse_safetensors(std::as_bytes(std::span(data, size)), "input");
  } catch (const Error&) {
    return 0;
  }
  const std::vector<std::byte> again = rewritten(content);
  if (!same(content, parse_safetensors(again, "again"))) {
    std::abort();
  }
  return 0;
}
