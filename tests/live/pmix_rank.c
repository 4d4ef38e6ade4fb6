/* pmix_rank WHAT...: a rank that does what pmix_helper_test.cc wants of it, one after the other, and says in a line each what came
 * of it. Words of WHAT are parted by commas. Ends with a farewell, unless it is to leave. */
#include <pmix.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t self;

static void Tell(const char* what, const char* key, pmix_status_t status, const pmix_value_t* value) {
  printf("%s %s: ", what, key);
  if (status != PMIX_SUCCESS) {
    printf("%s\n", PMIx_Error_string(status));
    return;
  }
  switch (value->type) {
    case PMIX_STRING: printf("%s\n", value->data.string); break;
    case PMIX_UINT32: printf("%u\n", value->data.uint32); break;
    case PMIX_UINT16: printf("%u\n", value->data.uint16); break;
    case PMIX_PROC_RANK: printf("%u\n", value->data.rank); break;
    case PMIX_BOOL: printf("%s\n", value->data.flag ? "true" : "false"); break;
    default: printf("of type %d\n", value->type);
  }
}

static void Get(const char* what, uint32_t rank, const char* name, const char* key) {
  pmix_proc_t proc = self;
  pmix_value_t* value = NULL;
  proc.rank = rank;
  const pmix_status_t status = PMIx_Get(&proc, key, NULL, 0, &value);
  Tell(what, name, status, value);
  if (status == PMIX_SUCCESS) PMIX_VALUE_RELEASE(value);
}

/* What the server says of the team, of this node, and of a rank. */
#define KEY(name) {#name, name}
static void Attributes(uint32_t rank) {
  static const char* const of_all[][2] = {KEY(PMIX_JOBID), KEY(PMIX_UNIV_SIZE), KEY(PMIX_JOB_SIZE), KEY(PMIX_MAX_PROCS),
                                          KEY(PMIX_LOCAL_SIZE), KEY(PMIX_NODE_SIZE), KEY(PMIX_NUM_NODES), KEY(PMIX_JOB_NUM_APPS),
                                          KEY(PMIX_LOCAL_PEERS), KEY(PMIX_LOCALLDR), KEY(PMIX_TMPDIR), KEY(PMIX_NSDIR),
                                          KEY(PMIX_TDIR_RMCLEAN)};
  static const char* const of_rank[][2] = {KEY(PMIX_APPNUM), KEY(PMIX_APP_RANK), KEY(PMIX_GLOBAL_RANK), KEY(PMIX_LOCAL_RANK),
                                           KEY(PMIX_NODE_RANK), KEY(PMIX_NODEID), KEY(PMIX_HOSTNAME), KEY(PMIX_PROCDIR)};
  for (size_t i = 0; i < sizeof of_all / sizeof *of_all; ++i) Get("all", PMIX_RANK_WILDCARD, of_all[i][0], of_all[i][1]);
  for (size_t i = 0; i < sizeof of_rank / sizeof *of_rank; ++i) Get("rank", rank, of_rank[i][0], of_rank[i][1]);
  char* nodes = NULL;
  pmix_status_t status = PMIx_Resolve_nodes(self.nspace, &nodes);
  printf("nodes: %s\n", status == PMIX_SUCCESS ? nodes : PMIx_Error_string(status));
}

static void Peers(const char* node) {
  pmix_proc_t* procs = NULL;
  size_t count = 0;
  const pmix_status_t status = PMIx_Resolve_peers(node, self.nspace, &procs, &count);
  printf("peers:");
  for (size_t i = 0; status == PMIX_SUCCESS && i < count; ++i) printf(" %u", procs[i].rank);
  printf("\n");
}

static void Put(const char* key, const char* text) {
  pmix_value_t value;
  PMIX_VALUE_LOAD(&value, (void*)text, PMIX_STRING);
  pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
  if (status == PMIX_SUCCESS) status = PMIx_Commit();
  printf("put: %s\n", PMIx_Error_string(status));
}

/* With the ranks that are named; none: all. What all have put is gathered. */
static void Fence(char** ranks) {
  pmix_proc_t procs[16];
  size_t count = 0;
  for (; *ranks != NULL; ++ranks) {
    procs[count] = self;
    procs[count++].rank = (uint32_t)atoi(*ranks);
  }
  pmix_info_t info;
  bool collect = true;
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  printf("fence: %s\n", PMIx_Error_string(PMIx_Fence(count > 0 ? procs : NULL, count, &info, 1)));
}

/* Pairs of keys and values. */
static void Publish(char** words, bool once) {
  pmix_info_t infos[16];
  size_t count = 0;
  for (; words[0] != NULL; words += 2) {
    PMIX_INFO_LOAD(&infos[count], words[0], words[1], PMIX_STRING);
    ++count;
  }
  pmix_data_range_t range = PMIX_RANGE_SESSION;
  PMIX_INFO_LOAD(&infos[count], PMIX_RANGE, &range, PMIX_DATA_RANGE);
  ++count;
  pmix_persistence_t persistence = once ? PMIX_PERSIST_FIRST_READ : PMIX_PERSIST_APP;
  PMIX_INFO_LOAD(&infos[count], PMIX_PERSISTENCE, &persistence, PMIX_PERSIST);
  ++count;
  printf("publish: %s\n", PMIx_Error_string(PMIx_Publish(infos, count)));
}

/* `wait`: -1: none; else how many of the keys; 0: all. */
static void LookUp(char** keys, int wait) {
  pmix_pdata_t found[16];
  size_t count = 0;
  for (; keys[count] != NULL; ++count) {
    PMIX_PDATA_CONSTRUCT(&found[count]);
    PMIX_LOAD_KEY(found[count].key, keys[count]);
  }
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_WAIT, &wait, PMIX_INT);
  const pmix_status_t status = PMIx_Lookup(found, count, wait >= 0 ? &info : NULL, wait >= 0 ? 1 : 0);
  printf("lookup: %s", PMIx_Error_string(status));
  for (size_t i = 0; i < count; ++i) {
    if (found[i].value.type == PMIX_STRING) printf(" %s=%s@%u", found[i].key, found[i].value.data.string, found[i].proc.rank);
  }
  printf("\n");
}

static void Spawn(void) {
  pmix_app_t app;
  PMIX_APP_CONSTRUCT(&app);
  app.cmd = strdup("/bin/true");
  app.maxprocs = 1;
  char space[PMIX_MAX_NSLEN + 1];
  printf("spawn: %s\n", PMIx_Error_string(PMIx_Spawn(NULL, 0, &app, 1, space)));
}

int main(int argc, char** argv) {
  const pmix_status_t status = PMIx_Init(&self, NULL, 0);
  if (status != PMIX_SUCCESS) {
    printf("init: %s\n", PMIx_Error_string(status));
    return 1;
  }
  for (int i = 1; i < argc; ++i) {
    char* words[17] = {NULL};
    size_t count = 0;
    for (char* word = strtok(argv[i], ","); word != NULL && count < 16; word = strtok(NULL, ",")) words[count++] = word;
    const char* const what = words[0];
    if (strcmp(what, "attributes") == 0) Attributes((uint32_t)atoi(words[1]));
    if (strcmp(what, "peers") == 0) Peers(words[1]);
    if (strcmp(what, "put") == 0) Put(words[1], words[2]);
    if (strcmp(what, "get") == 0) Get("get", (uint32_t)atoi(words[1]), words[2], words[2]);
    if (strcmp(what, "fence") == 0) Fence(words + 1);
    if (strcmp(what, "publish") == 0) Publish(words + 1, false);
    if (strcmp(what, "publish_once") == 0) Publish(words + 1, true);
    if (strcmp(what, "lookup") == 0) LookUp(words + 1, -1);
    if (strcmp(what, "await") == 0) LookUp(words + 2, atoi(words[1]));
    if (strcmp(what, "unpublish") == 0)
      printf("unpublish: %s\n", PMIx_Error_string(PMIx_Unpublish(words[1] != NULL ? words + 1 : NULL, NULL, 0)));
    if (strcmp(what, "spawn") == 0) Spawn();
    if (strcmp(what, "wait") == 0) (void)!getchar();  /* until it is told to go on */
    fflush(stdout);
    if (strcmp(what, "abort") == 0) PMIx_Abort(atoi(words[1]), "as it was told", NULL, 0);
    if (strcmp(what, "leave") == 0) _exit(0);
  }
  PMIx_Finalize(NULL, 0);
  return 0;
}
