// Meeting files: how the ranks of one host find their store when the launcher gives no address. Rank
// 0 serves the store on loopback and writes its address and a fresh secret to a file that only this
// user can read; the others wait for the file. Functions may be called from any thread.
//
// The file is DIRECTORY/trireme-UID-JOB.meet, mode 0600, in a folder that only this user can change (meeting_folder.h).
// It appears atomically (written elsewhere, then renamed), and rank 0 holds a lock on it that ends with its process: a
// file without the lock is stale, left over from a dead job; it is ignored and may be replaced. In a directory that
// others can write to, a file or link created by another user is rejected.
#pragma once

#include <string>

#include "comm/net/deadline.h"
#include "comm/net/secret.h"
#include "comm/net/socket.h"
#include "comm/rendezvous/meeting_folder.h"
#include "comm/rendezvous/tcp_store_server.h"
#include "trireme/error.h"

namespace trireme::comm {

struct MeetingPlace {
  std::string directory;
  /// The same on all ranks and different from any other current job of this user; see LaunchInfo::job. Any bytes.
  std::string job;

  /// "/tmp/trireme-1000/trireme-1000-4711.0.meet".
  [[nodiscard]] std::string path() const;
};

/// Where other ranks search for rank 0's file.
struct MeetingSearch {
  MeetingFolderOptions folders{};
  std::string job;  ///< as in MeetingPlace
};

/// The address and credentials of the store.
struct Meeting {
  Address store;
  Secret secret;
};

/// A job id for ranks on one host whose launcher has none: the process id of their parent.
[[nodiscard]] std::string job_of_parent();

/// A running process holds the meeting file: another rank 0 of this job, or another job with the same id.
class MeetingTaken : public Error {
 public:
  explicit MeetingTaken(const std::string& what) : Error(ErrorKind::Usage, what) {}
};

/// Rank 0's side: the store's server and the file, for the lifetime of the object.
class MeetingHost {
 public:
  /// Throws Error(System) if the file cannot be created or another user's file exists, and MeetingTaken if a live job
  /// has the same id.
  explicit MeetingHost(MeetingPlace place, Encryption encryption = Encryption::None);
  /// Removes the file, if it is still this one, and stops the server.
  ~MeetingHost();
  MeetingHost(const MeetingHost&) = delete;
  MeetingHost& operator=(const MeetingHost&) = delete;

  [[nodiscard]] const Meeting& meeting() const { return meeting_; }
  [[nodiscard]] const TcpStoreServer& server() const { return server_; }

 private:
  MeetingPlace place_;
  Secret secret_ = Secret::random();
  TcpStoreServer server_;
  Meeting meeting_;
  Fd file_;  ///< kept open for its lock
};

/// The other ranks' side: waits for the file of a live rank 0. Throws Error(System) at the deadline,
/// and at once if the file is not this user's own or not what MeetingHost writes.
[[nodiscard]] Meeting await_meeting(const MeetingPlace& place, Deadline deadline);
[[nodiscard]] Meeting await_meeting(const MeetingSearch& search, Deadline deadline);

}  // namespace trireme::comm
