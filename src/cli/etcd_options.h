// Options about TLS to etcd, for every command that takes an etcd+tls:// location. One thread.
#pragma once

#include "command_line/command_line.h"
#include "trireme/tls_files.h"

namespace trireme::cli {

/// --etcd-ca, --etcd-cert, --etcd-key. `files` must outlive the command.
void add_etcd_tls_options(Command& command, TlsFiles& files);

}  // namespace trireme::cli
