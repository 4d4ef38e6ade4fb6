#include "migrate/compress.h"

#include <new>
#include <zstd.h>

namespace harrow::migrate {
namespace {

constexpr int kLevel = 1;

Status Damaged() {
  return Status(Code::kDamaged, "what came is not what was compressed");
}

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

std::string Compress(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), kLevel);
  out.resize(ZSTD_isError(size) != 0 ? 0 : size);  // with so much room it has no reason to fail
  return out;
}

Result<std::string> Decompress(std::string_view bytes, size_t size, bool at_most) {
  const unsigned long long told = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (told == ZSTD_CONTENTSIZE_UNKNOWN || told == ZSTD_CONTENTSIZE_ERROR || (at_most ? told > size : told != size)) return Damaged();
  std::string out(static_cast<size_t>(told), '\0');
  HARROW_RETURN_IF_ERROR(Compressor().DecompressTo(bytes, out.data(), out.size()));
  return out;
}

struct Compressor::Contexts {
  std::unique_ptr<ZSTD_CCtx, FreeContext> compression{};
  std::unique_ptr<ZSTD_DCtx, FreeContext> decompression{};
};

Compressor::Compressor() : contexts_(std::make_unique<Contexts>()) {}
Compressor::~Compressor() = default;

std::string_view Compressor::Compress(std::string_view bytes) {
  auto& context = contexts_->compression;
  if (!context) context.reset(ZSTD_createCCtx());
  if (!context) throw std::bad_alloc();
  if (out_.size() < ZSTD_compressBound(bytes.size())) out_.resize(ZSTD_compressBound(bytes.size()));
  const size_t size = ZSTD_compressCCtx(context.get(), out_.data(), out_.size(), bytes.data(), bytes.size(), kLevel);
  return std::string_view(out_).substr(0, ZSTD_isError(size) != 0 ? 0 : size);
}

Status Compressor::DecompressTo(std::string_view bytes, char* to, size_t size) {
  auto& context = contexts_->decompression;
  if (!context) context.reset(ZSTD_createDCtx());
  if (!context) throw std::bad_alloc();
  if (ZSTD_getFrameContentSize(bytes.data(), bytes.size()) != size) return Damaged();
  const size_t got = ZSTD_decompressDCtx(context.get(), to, size, bytes.data(), bytes.size());
  return ZSTD_isError(got) != 0 || got != size ? Damaged() : Status();
}

}  // namespace harrow::migrate
