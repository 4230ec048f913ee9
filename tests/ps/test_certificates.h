// A CA and certificates for a test, made with OpenSSL's program. One thread.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "temporary_folder.h"
#include "trireme/tls_files.h"

namespace trireme::ps {

class TestCertificates {
 public:
  /// `address`: an IP address for which the servers' certificates are valid.
  explicit TestCertificates(const std::string& address = "127.0.0.1") {
    make("ca", "-addext basicConstraints=critical,CA:TRUE");
    make("server", fmt::format("{} -addext subjectAltName=IP:{} -addext "
                               "extendedKeyUsage=serverAuth,clientAuth",
                               by_ca(), address));
    make("client", by_ca() + " -addext extendedKeyUsage=clientAuth");
  }

  /// Replaces the server's certificate by one that expired yesterday.
  void expire_server() const {
    run(fmt::format("x509 -x509toreq -copy_extensions copyall -in {0} -signkey {1} -out {2}",
                    file("server.pem"), file("server.key"), file("server.csr")));
    run(fmt::format(
        "x509 -req -copy_extensions copyall -in {} -days -1 -CA {} -CAkey {} -set_serial 7 -out {}",
        file("server.csr"), ca(), file("ca.key"), file("server.pem")));
  }

  /// For the server. Its certificate also serves as a client's: etcd's JSON gateway calls etcd itself with it.
  [[nodiscard]] TlsFiles server() const { return {ca(), file("server.pem"), file("server.key")}; }
  /// Without a certificate of the client.
  [[nodiscard]] TlsFiles trust() const { return {.ca = ca()}; }
  [[nodiscard]] TlsFiles client() const { return {ca(), file("client.pem"), file("client.key")}; }

 private:
  [[nodiscard]] std::string file(std::string_view name) const { return folder_ / name; }
  [[nodiscard]] std::string ca() const { return file("ca.pem"); }
  [[nodiscard]] std::string by_ca() const {
    return fmt::format("-CA {} -CAkey {} -addext basicConstraints=CA:FALSE", ca(), file("ca.key"));
  }
  void make(const std::string& name, const std::string& options) const {
    run(fmt::format(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
        "'/CN=test {}' -keyout {} -out {} {}",
        name, file(name + ".key"), file(name + ".pem"), options));
  }
  void run(const std::string& arguments) const {
    const std::string command = fmt::format("openssl {} > {} 2>&1", arguments, file("openssl.log"));
    if (std::system(command.c_str()) != 0) {  // NOLINT(concurrency-mt-unsafe): one thread
      throw std::runtime_error(command + ": " + content_of(file("openssl.log")));
    }
  }

  TemporaryFolder folder_;
};

}  // namespace trireme::ps
