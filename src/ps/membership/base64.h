// Base64 (RFC 4648), in which JSON carries bytes. Callable from any thread.
#pragma once

#include <string>
#include <string_view>

namespace trireme::ps {

/// "bar" → "YmFy", with padding.
[[nodiscard]] std::string to_base64(std::string_view bytes);
/// Throws Error(Input) on other characters or a wrong length.
[[nodiscard]] std::string from_base64(std::string_view text);

}  // namespace trireme::ps
