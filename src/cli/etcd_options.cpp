#include "cli/etcd_options.h"

namespace trireme::cli {

void add_etcd_tls_options(Command& command, TlsFiles& files) {
  command.add_option(
      "--etcd-ca", files.ca,
      "for etcd+tls://: PEM file of the CA that signed etcd's certificates (default: "
      "the system's CAs)");
  command.add_option("--etcd-cert", files.certificate,
                     "for etcd+tls://: PEM file of this client's certificate, if etcd demands one");
  command.add_option("--etcd-key", files.key, "for etcd+tls://: PEM file of its private key");
}

}  // namespace trireme::cli
