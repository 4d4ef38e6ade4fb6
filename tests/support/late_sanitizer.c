/* For a sanitized library in a program that is not: the runtime comes late, and what the program itself allocated is none
 * of its business. */
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
  return "verify_asan_link_order=0:detect_leaks=0:abort_on_error=1:handle_segv=0:log_to_syslog=0";
}
