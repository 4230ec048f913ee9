// Meeting folders: where a user's meeting files (meeting.h) are. Only the user can modify their contents, so no other
// user can plant a file there first. Callable from any thread.
//
//   $XDG_RUNTIME_DIR/trireme   if that directory is this user's alone, with mode 0700
//   /tmp/trireme-UID           else
//   /tmp/trireme-UID-RANDOM    if another user created /tmp/trireme-UID first, or can change it
//
// Rank 0 creates the folder. The others search for it: they know the prefix of a random name, and trust only a folder
// that belongs to this user alone.
#pragma once

#include <string>
#include <vector>

namespace trireme::comm {

struct MeetingFolderOptions {
  /// The value of XDG_RUNTIME_DIR; "" if there is none.
  std::string runtime{};
  /// A directory that all users can write to, with the sticky bit.
  std::string shared = "/tmp";
};

/// Rank 0's side: creates the folder if necessary. Throws Error(System) naming the conflicting folder, its owner and
/// the fix.
[[nodiscard]] std::string make_meeting_folder(const MeetingFolderOptions& options);

/// The other ranks' side: the folders that currently exist, usually one.
[[nodiscard]] std::vector<std::string> find_meeting_folders(const MeetingFolderOptions& options);

/// Where rank 0 looks first, for messages.
[[nodiscard]] std::string first_meeting_folder(const MeetingFolderOptions& options);

}  // namespace trireme::comm
