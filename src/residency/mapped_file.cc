#include "residency/mapped_file.h"

#include <sys/mman.h>

#include "base/assert.h"
#include "base/huge_pages.h"

namespace breccia::residency {

Result<std::unique_ptr<const MappedFile>> MappedFile::map(const sst::FileRange& whole,
                                                          std::shared_ptr<Unmapper> unmapper) {
  BRECCIA_ASSERT(whole.offset == 0 && whole.bytes > 0);
  auto mapping = std::make_unique<Unmapper::Mapping>();
  std::unique_ptr<MappedFile> file(new MappedFile(std::move(mapping), std::move(unmapper)));
  auto data = base::map_file(whole.file, *whole.path, whole.bytes, PROT_READ);
  if (!data.ok()) return Status::MemoryLimit("a file cannot be mapped", *whole.path);
  file->mapping_->data = data.value();
  file->mapping_->bytes = whole.bytes;
  // What lies beside a value is not wanted. Advice: what fails changes nothing.
  (void)madvise(data.value(), whole.bytes, MADV_RANDOM);
  return std::unique_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (mapping_->data != nullptr) unmapper_->unmap(std::move(mapping_));
}

void MappedFile::fetch_pages() const {
  base::fetch_pages(static_cast<const std::byte*>(mapping_->data), mapping_->bytes);
}

}  // namespace breccia::residency
