/* The files that a kernel driver would have given the device, through the functions by which
 * programs look for them. */
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "abi.h"

#define TOP "/sys/class/infiniband"
#define DEVICE_PATH TOP "/" DEVICE
#define REAL_PATH "/sys/devices/virtual/infiniband/" DEVICE

static void expect_text(const char* path, const char* expected) {
  char text[256] = "";
  FILE* file = fopen(path, "r");
  CHECK(file != NULL);
  CHECK(fgets(text, sizeof text, file) != NULL);
  fclose(file);
  if (strcmp(text, expected) != 0) {
    fprintf(stderr, "%s: \"%s\" instead of \"%s\"\n", path, text, expected);
    exit(1);
  }
}

static void check_files(void) {
  expect_text(DEVICE_PATH "/node_type", "1: CA\n");
  expect_text(DEVICE_PATH "/ports/1/link_layer", "Ethernet\n");
  expect_text(DEVICE_PATH "/ports/1/state", "4: ACTIVE\n");
  expect_text(DEVICE_PATH "/ports/1/gid_attrs/types/0", "RoCE v2\n");
  expect_text(DEVICE_PATH "/ports/1/gid_attrs/ndevs/0", "lo\n");
  expect_text(DEVICE_PATH "/device/numa_node", "-1\n");
  expect_text(DEVICE_PATH "/device/net/lo/mtu", "65536\n"); /* the kernel's own */
  expect_text(REAL_PATH "//ports/./1/../1/pkeys/0", "0xffff\n");
  expect_text("/sys/class/misc/rdma_cm/abi_version", "4\n");
  expect_text("/sys/class/infiniband_verbs/abi_version", "6\n");
  CHECK_NULL(ENOENT, fopen(DEVICE_PATH "/no_such_file", "r"));
  CHECK_NULL(ENOENT, fopen(TOP "/vb_nothing/node_guid", "r"));
  CHECK_NULL(EACCES, fopen(DEVICE_PATH "/node_desc", "w"));
  CHECK(open(DEVICE_PATH "/node_desc", O_RDWR) == -1 && errno == EACCES);

  /* An empty place of the GID table: as the kernel shows it. */
  char text[64];
  expect_text(DEVICE_PATH "/ports/1/gids/127", "0000:0000:0000:0000:0000:0000:0000:0000\n");
  const int empty = open(DEVICE_PATH "/ports/1/gid_attrs/types/127", O_RDONLY);
  CHECK(empty >= 0 && read(empty, text, sizeof text) == -1 && errno == EINVAL);
  close(empty);
  FILE* interface = fopen(DEVICE_PATH "/ports/1/gid_attrs/ndevs/127", "r");
  CHECK(interface != NULL && fgets(text, sizeof text, interface) == NULL && errno == EINVAL);
  fclose(interface);
  CHECK_NULL(ENOENT, fopen(DEVICE_PATH "/ports/1/gids/128", "r"));

  const int fd = open(DEVICE_PATH "/fw_ver", O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  const ssize_t n = read(fd, text, sizeof text);
  CHECK(n > 1 && text[n - 1] == '\n' && read(fd, text, sizeof text) == 0);
  close(fd);
}

static void check_looks(struct ibv_device* device) {
  struct stat s;
  CHECK(stat(DEVICE_PATH, &s) == 0 && S_ISDIR(s.st_mode));
  CHECK(lstat(DEVICE_PATH, &s) == 0 && S_ISLNK(s.st_mode));
  CHECK(lstat(DEVICE_PATH "/", &s) == 0 && S_ISDIR(s.st_mode));
  CHECK(fstatat(AT_FDCWD, DEVICE_PATH "/node_guid", &s, 0) == 0 && S_ISREG(s.st_mode));
  CHECK(stat(TOP "/..", &s) == 0 && S_ISDIR(s.st_mode));
  CHECK(access(DEVICE_PATH "/node_guid", R_OK) == 0);
  CHECK(access(DEVICE_PATH "/node_guid", W_OK) == -1 && errno == EACCES);
  CHECK(access(DEVICE_PATH "/node_gui", F_OK) == -1 && errno == ENOENT);

  char path[PATH_MAX];
  snprintf(path, sizeof path, "/dev/infiniband/%s", device->dev_name);
  CHECK(stat(path, &s) == 0 && S_ISCHR(s.st_mode) && major(s.st_rdev) == 231);
  CHECK(access(path, R_OK | W_OK) == 0);
  snprintf(path, sizeof path, "%s/ibdev", device->dev_path);
  expect_text(path, DEVICE "\n");
  snprintf(path, sizeof path, "%s/device/numa_node", device->dev_path);
  expect_text(path, "-1\n");

  CHECK(realpath(device->ibdev_path, path) != NULL && strcmp(path, REAL_PATH) == 0);
  const ssize_t n = readlink(DEVICE_PATH, path, sizeof path);
  CHECK(n > 0 && strncmp(path, "../../devices/virtual/infiniband/" DEVICE, (size_t)n) == 0);
  CHECK(readlink(DEVICE_PATH "/node_guid", path, sizeof path) == -1 && errno == EINVAL);
}

static int count_in(const char* path, const char* name) {
  DIR* folder = opendir(path);
  CHECK(folder != NULL);
  int found = 0;
  for (struct dirent* e; (e = readdir(folder)) != NULL;) found += strcmp(e->d_name, name) == 0;
  rewinddir(folder);
  CHECK(readdir(folder) != NULL);
  CHECK(closedir(folder) == 0);
  return found;
}

static int named_ports(const struct dirent* e) { return strcmp(e->d_name, "ports") == 0; }

static void check_folders(void) {
  CHECK(count_in(TOP, DEVICE) == 1);
  CHECK(count_in(TOP, "lo") == 0);
  CHECK(count_in(DEVICE_PATH "/device/net", "lo") == 1);
  CHECK(count_in(DEVICE_PATH "/ports/1", "gids") == 1);
  CHECK(count_in("/dev/infiniband", "rdma_cm") == 1);
  CHECK_NULL(ENOENT, opendir(DEVICE_PATH "/none"));
  CHECK_NULL(ENOTDIR, opendir(DEVICE_PATH "/node_guid"));
  CHECK(count_in("/sys/class/net", "lo") == 1); /* the kernel's, beside an open one of ours */

  struct dirent** list = NULL;
  CHECK(scandir(DEVICE_PATH, &list, named_ports, alphasort) == 1);
  CHECK(list[0]->d_type == DT_DIR);
  free(list[0]);
  free(list);

  glob_t paths;
  CHECK(glob(TOP "/vb_l*/ports/*/state", 0, NULL, &paths) == 0 && paths.gl_pathc == 1);
  CHECK(strcmp(paths.gl_pathv[0], DEVICE_PATH "/ports/1/state") == 0);
  globfree(&paths);
}

int main(void) {
  check_files(); /* before a device is opened */
  check_folders();
  struct ibv_context* context = open_loopback();
  check_looks(context->device);
  check_files();
  CHECK(ibv_close_device(context) == 0);
  return 0;
}
