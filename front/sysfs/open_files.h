#pragma once

// The files of the tree that the program has open: files in memory, with what was so when they were
// opened. Who reads one again from its start finds what is so now, as in the kernel's sysfs; but
// not who does it through stdio, whose calls of read() nobody can stand before.

#include "front/sysfs/tree.h"

namespace verbena::front::sysfs {

/// Opens a node that is a file, for reading only. -1 and errno: it failed.
[[nodiscard]] int open_file(const Node& node, int flags);

/// The program is about to read `fd` from its start. Does nothing with descriptors that aren't
/// ours, and keeps errno.
void refresh(int fd);
/// … from where it is, which may be the start.
void refresh_at_start(int fd);

/// `copy` refers to what `fd` refers to.
void file_copied(int fd, int copy);
/// It is about to be closed.
void file_closed(int fd);

}  // namespace verbena::front::sysfs
