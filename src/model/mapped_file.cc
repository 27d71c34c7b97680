// SPDX-License-Identifier: Apache-2.0
#include "model/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace headrace::model {
namespace {

struct OpenFile {
  int descriptor = -1;
  size_t size_bytes = 0;
  OpenFile() = default;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor >= 0) ::close(descriptor);
  }
};

Status open_regular_file(const std::string& path, OpenFile& file) {
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) return not_found(path + ": no such file");
    return invalid_data(fmt::format("{}: cannot be opened: {}", path, std::strerror(error)));
  }
  struct stat info {};
  if (::fstat(file.descriptor, &info) != 0) {
    return invalid_data(fmt::format("{}: {}", path, std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return invalid_data(path + ": is not a regular file");
  file.size_bytes = static_cast<size_t>(info.st_size);
  return {};
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  OpenFile file;
  HEADRACE_RETURN_IF_ERROR(open_regular_file(path, file));
  void* data = nullptr;
  if (file.size_bytes > 0) {  // an empty range cannot be mapped
    data = ::mmap(nullptr, file.size_bytes, PROT_READ, MAP_PRIVATE, file.descriptor, 0);
    if (data == MAP_FAILED) {
      return resource_exhausted(
          fmt::format("{}: cannot map {} bytes: {}", path, file.size_bytes, std::strerror(errno)));
    }
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, static_cast<const std::byte*>(data), file.size_bytes));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
}

Result<std::string> read_text_file(const std::string& path, size_t max_bytes) {
  OpenFile file;
  HEADRACE_RETURN_IF_ERROR(open_regular_file(path, file));
  if (file.size_bytes > max_bytes) {
    return invalid_data(fmt::format("{}: has {} bytes, more than the {} that such a file may have",
                                    path, file.size_bytes, max_bytes));
  }
  std::string text(file.size_bytes, '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::read(file.descriptor, text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return invalid_data(fmt::format("{}: {}", path, std::strerror(errno)));
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  text.resize(filled);
  return text;
}

}  // namespace headrace::model
