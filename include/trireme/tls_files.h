// TlsFiles: the certificates of a TLS client. A plain value.
#pragma once

#include <string>

namespace trireme {

/// Paths of PEM files.
struct TlsFiles {
  std::string ca{};  ///< certificates that the server's must be signed by; "": the system's
  std::string certificate{};  ///< of this client, with its chain, for servers that demand one
  std::string key{};          ///< private key of `certificate`
  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

}  // namespace trireme
