// Why OpenSSL failed. Any thread.
#pragma once

#include <string>

#include <openssl/err.h>

namespace trireme::comm {

/// Of this thread's last error, which it clears.
inline std::string openssl_reason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason != nullptr ? reason : "no reason given";
}

}  // namespace trireme::comm
