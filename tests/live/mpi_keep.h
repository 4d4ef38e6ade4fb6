/* Open MPI 4 crashes where MPI_Finalize unloads the component by which it speaks PMIx before its other thread, which a busy machine may keep
   waiting, has run what that component gave it ("model declared"), and may crash, or stand for ever, where that runs while MPI_Finalize takes all
   else apart. So ranks that are to do well keep the component, and wait a while before they end. _GNU_SOURCE is defined. */
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <string.h>

static int KeepIfIt(struct dl_phdr_info* info, size_t size, void* unused) {
  (void)size;
  (void)unused;
  if (strstr(info->dlpi_name, "/mca_pmix_") != NULL) dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  return 0;
}

/* After MPI_Init. */
static void KeepComponent(void) {
  dl_iterate_phdr(KeepIfIt, NULL);
}
