/* keys.c: one table of keys for each block; a row says what reads the value.
 *
 * Invariant: a reader either takes the value or complains about it once, at its place.
 */
#include "cli/job_file/keys.h"

#include "cli/job_file/values.h"

#include <string.h>

typedef struct reader {
    job_file *job;
    job_complaints *complaints;
    const char *body;        /* what holds the job's keys: "train" or the file */
    job_resources *capacity; /* where a block of resources goes */
    job_host *host;          /* the entry of hosts that is being read */
    job_text framework;      /* the framework's block */
} reader;

typedef struct key key;
struct key {
    const char *name;
    void (*read)(reader *r, const key *k, const job_node *value);
};

typedef struct block {
    const char *what; /* its name in complaints */
    const key *keys;
    size_t count;
} block;

#define BLOCK(what, keys)                                                                          \
    {                                                                                              \
        what, keys, sizeof(keys) / sizeof(keys)[0]                                                 \
    }

static void read_block(reader *r, const block *b, const job_node *value);

/* ---- resources, workers, elastic --------------------------------------------------------------- */

static void read_gpus(reader *r, const key *k, const job_node *value)
{
    job_take_number(r->complaints, k->name, value, &r->capacity->gpus, 0, JOB_GPUS_MAX);
}

static void read_cpus(reader *r, const key *k, const job_node *value)
{
    job_take_number(r->complaints, k->name, value, &r->capacity->cpus, 1, JOB_CPUS_MAX);
}

static void read_mem(reader *r, const key *k, const job_node *value)
{
    job_take_number(r->complaints, "mem (in MiB)", value, &r->capacity->mem_mib, 1,
                    JOB_MEM_MAX_MIB);
    (void)k;
}

static const key resources_keys[] = {{"gpus", read_gpus}, {"cpus", read_cpus}, {"mem", read_mem}};
static const block resources_block = BLOCK("resources", resources_keys);

static void read_resources(reader *r, const key *k, const job_node *value)
{
    (void)k;
    r->capacity = &r->job->resources;
    read_block(r, &resources_block, value);
}

static void read_count(reader *r, const key *k, const job_node *value)
{
    (void)k;
    job_take_number(r->complaints, "workers", value, &r->job->workers, 1, JOB_PROCESSES_MAX);
}

static void read_processes(reader *r, const key *k, const job_node *value)
{
    job_take_number(r->complaints, k->name, value, &r->job->processes, 1, JOB_PROCESSES_MAX);
}

static const key workers_keys[] = {{"count", read_count}, {"processes", read_processes}};
static const block workers_block = BLOCK("workers", workers_keys);

/* A number, or a block that also says how many processes each has. */
static void read_workers(reader *r, const key *k, const job_node *value)
{
    if (value->kind == JOB_MAP)
        read_block(r, &workers_block, value);
    else
        read_count(r, k, value);
}

static void read_min(reader *r, const key *k, const job_node *value)
{
    job_take_number(r->complaints, k->name, value, &r->job->min_processes, 1, JOB_PROCESSES_MAX);
}

static const key elastic_keys[] = {{"min", read_min}};
static const block elastic_block = BLOCK("elastic", elastic_keys);

static void read_elastic(reader *r, const key *k, const job_node *value)
{
    (void)k;
    read_block(r, &elastic_block, value);
    if (value->kind == JOB_MAP && value->first == NULL)
        job_complain(r->complaints, value->at, "how many processes are enough? write 'min: N'");
}

/* ---- The framework ----------------------------------------------------------------------------- */

static void read_framework(reader *r, const key *k, const job_node *value)
{
    if (!job_take_text(r->complaints, k->name, value, &r->job->framework) ||
        job_framework_of(value->text) != NULL)
        return;
    text_nearest nearest = text_nearest_to(value->text);
    for (size_t i = 0; job_frameworks[i].name != NULL; i++)
        text_nearest_offer(&nearest, job_frameworks[i].name);
    if (nearest.best != NULL)
        job_complain(r->complaints, value->at, "no framework '%.60s'; did you mean '%s'?",
                     value->text, nearest.best);
    else
        job_complain(r->complaints, value->at,
                     "no framework '%.60s'; there are tensorflow, pytorch, jax and plain",
                     value->text);
}

static void read_version(reader *r, const key *k, const job_node *value)
{
    if (job_take_text(r->complaints, k->name, value, &r->job->version) &&
        !job_is_version(value->text))
        job_complain(r->complaints, value->at, "'%.60s' is no version; write it as in 2.21.0",
                     value->text);
}

static void read_python(reader *r, const key *k, const job_node *value)
{
    if (job_take_text(r->complaints, k->name, value, &r->job->python) &&
        !job_is_python(value->text))
        job_complain(r->complaints, value->at,
                     "'%.60s' is no Python; write a version as in 3.11, or the path of one",
                     value->text);
}

static const key share_keys[] = {{"workers", read_workers}, {"processes", read_processes}};

/* horovod: or rueda:, which say on how many workers the framework trains. */
static void read_share(reader *r, const key *k, const job_node *value)
{
    const block b = BLOCK(k->name, share_keys);
    read_block(r, &b, value);
}

static const key framework_keys[] = {
    {"version", read_version},
    {"python", read_python},
    {"horovod", read_share},
    {"rueda", read_share},
};

static void read_framework_block(reader *r, const key *k, const job_node *value)
{
    const block b = BLOCK(k->name, framework_keys);
    if (r->framework.text != NULL) {
        job_complain(r->complaints, value->at, "%s has a block already, at %d:%d",
                     r->framework.text, r->framework.at.line, r->framework.at.column);
        return;
    }
    r->framework = (job_text){k->name, value->at};
    read_block(r, &b, value);
}

static void check_framework_block(reader *r)
{
    const char *block = r->framework.text, *named = r->job->framework.text;
    if (block != NULL && named == NULL)
        job_complain(r->complaints, r->framework.at, "a block of %s, but no 'framework: %s'", block,
                     block);
    else if (block != NULL && strcmp(block, named) != 0 && job_framework_of(named) != NULL)
        job_complain(r->complaints, r->framework.at, "a block of %s, but the framework is %s",
                     block, named);
}

/* ---- hosts ------------------------------------------------------------------------------------- */

static void read_host_name(reader *r, const key *k, const job_node *value)
{
    if (job_take_text(r->complaints, k->name, value, &r->host->name) && !job_is_host(value->text))
        job_complain(r->complaints, value->at, "'%.60s' is no name of a host", value->text);
}

static void read_slots(reader *r, const key *k, const job_node *value)
{
    job_take_number(r->complaints, k->name, value, &r->host->slots, 1, JOB_PROCESSES_MAX);
}

static const key host_keys[] = {
    {"host", read_host_name}, {"slots", read_slots}, {"gpus", read_gpus},
    {"cpus", read_cpus},      {"mem", read_mem},
};
static const block host_block = BLOCK("a host", host_keys);

static void read_host(reader *r, const job_node *value)
{
    r->capacity = &r->host->has;
    if (value->kind == JOB_WORD) {
        job_take_host(r->complaints, &r->job->tree, value, r->host);
        return;
    }
    read_block(r, &host_block, value);
    if (value->kind == JOB_MAP && r->host->name.text == NULL)
        job_complain(r->complaints, value->at, "which host? write 'host: NAME'");
}

static void check_host_is_new(reader *r)
{
    for (const job_host *h = r->job->hosts; h < r->host && r->host->name.text != NULL; h++) {
        if (h->name.text == NULL || strcmp(h->name.text, r->host->name.text) != 0)
            continue;
        job_complain(r->complaints, r->host->name.at, "%s is already in the list, at %d:%d",
                     h->name.text, h->name.at.line, h->name.at.column);
        return;
    }
}

static void read_hosts(reader *r, const key *k, const job_node *value)
{
    job_file *job = r->job;
    job->hosts =
        job_take_list(r->complaints, &job->tree, k->name, value, JOB_HOSTS_MAX, sizeof *job->hosts);
    if (job->hosts == NULL)
        return;
    for (const job_node *item = value->first; item != NULL; item = item->next) {
        r->host = &job->hosts[job->host_count++];
        read_host(r, item);
        check_host_is_new(r);
    }
}

/* ---- env, run ---------------------------------------------------------------------------------- */

static void read_env(reader *r, const key *k, const job_node *value)
{
    job_file *job = r->job;
    if (value->kind != JOB_MAP) {
        job_complain(r->complaints, value->at, "%s must be a block of 'NAME: value'", k->name);
        return;
    }
    job->env = job_tree_take(&job->tree, job_node_count(value) * sizeof *job->env);
    for (const job_node *name = value->first; name != NULL; name = name->next->next) {
        job_variable v = {.name = {name->text, name->at}};
        if (!job_is_variable(name->text))
            job_complain(r->complaints, name->at, "'%.60s' is no name of a variable", name->text);
        else if (!name->repeated && job_take_text(r->complaints, name->text, name->next, &v.value))
            job->env[job->env_count++] = v;
    }
}

static void read_line(reader *r, const job_node *value)
{
    job_text *line = &r->job->run[r->job->run_count];
    if (value->kind == JOB_MAP)
        job_complain(r->complaints, value->at,
                     "a line with ': ' in it is read as a key; put it in quotes");
    else if (job_take_text(r->complaints, "a line of run", value, line))
        r->job->run_count++;
}

/* A list of lines, or one. */
static void read_run(reader *r, const key *k, const job_node *value)
{
    job_file *job = r->job;
    const bool single = value->kind == JOB_WORD;
    if (!single)
        job->run = job_take_list(r->complaints, &job->tree, k->name, value, JOB_LINES_MAX,
                                 sizeof *job->run);
    else
        job->run = job_tree_take(&job->tree, sizeof *job->run);
    if (job->run == NULL)
        return;
    if (single)
        read_line(r, value);
    for (const job_node *item = value->first; item != NULL; item = item->next)
        read_line(r, item);
}

/* ---- The file ---------------------------------------------------------------------------------- */

static void read_project(reader *r, const key *k, const job_node *value)
{
    job_take_text(r->complaints, k->name, value, &r->job->project);
}

static void read_train(reader *r, const key *k, const job_node *value);

/* The first two stand at the top; the rest there or inside train. */
static const key top_keys[] = {
    {"project", read_project},
    {"train", read_train},
    {"framework", read_framework},
    {"tensorflow", read_framework_block},
    {"pytorch", read_framework_block},
    {"jax", read_framework_block},
    {"plain", read_framework_block},
    {"version", read_version},
    {"python", read_python},
    {"workers", read_workers},
    {"processes", read_processes},
    {"elastic", read_elastic},
    {"resources", read_resources},
    {"hosts", read_hosts},
    {"env", read_env},
    {"run", read_run},
};
#define TOP_ONLY 2
#define TOP_NAME "the top of the file"
#define BODY_KEYS (top_keys + TOP_ONLY), (sizeof top_keys / sizeof top_keys[0] - TOP_ONLY)

static const block body_block = {"train", BODY_KEYS};
static const block file_block = BLOCK(TOP_NAME, top_keys);
static const block top_block = {TOP_NAME, top_keys, TOP_ONLY};
static const block framework_block = BLOCK("the framework's block", framework_keys);

/* Where a key may live, for one that stands elsewhere. */
static const block *const homes[] = {&body_block,      &top_block,     &resources_block,
                                     &framework_block, &workers_block, &host_block,
                                     &elastic_block};
#define HOME_COUNT (sizeof homes / sizeof homes[0])

static void read_train(reader *r, const key *k, const job_node *value)
{
    (void)k;
    read_block(r, &body_block, value);
}

static const key *find_key(const block *b, const char *name)
{
    for (size_t i = 0; i < b->count; i++) {
        if (strcmp(b->keys[i].name, name) == 0)
            return &b->keys[i];
    }
    return NULL;
}

/* The name of the block that a key belongs to; NULL: there is no such key. */
static const char *find_home(const reader *r, const char *name)
{
    for (size_t i = 0; i < HOME_COUNT; i++) {
        if (find_key(homes[i], name) != NULL)
            return homes[i] == &body_block ? r->body : homes[i]->what;
    }
    return NULL;
}

static void complain_unknown(reader *r, const block *b, const job_node *name)
{
    const char *home = find_home(r, name->text);
    text_nearest nearest = text_nearest_to(name->text);
    for (size_t i = 0; i < b->count; i++)
        text_nearest_offer(&nearest, b->keys[i].name);
    if (home != NULL)
        job_complain(r->complaints, name->at, "'%s' is no key of %s; its place is %s", name->text,
                     b->what, home);
    else if (nearest.best != NULL)
        job_complain(r->complaints, name->at, "'%.60s' is no key of %s; did you mean '%s'?",
                     name->text, b->what, nearest.best);
    else if (strcmp(name->text, "<<") == 0)
        job_complain(r->complaints, name->at, "merge keys are not known here; write the keys out");
    else
        job_complain(r->complaints, name->at, "'%.60s' is no key of %s", name->text, b->what);
}

static void complain_no_block(reader *r, const block *b, const job_node *value)
{
    if (value->kind == JOB_WORD && find_key(b, value->text) != NULL)
        job_complain(r->complaints, value->at, "a colon is missing after '%s'", value->text);
    else if (value->kind == JOB_WORD && !job_is_absent(value))
        job_complain(r->complaints, value->at, "%s must be a block of keys, not the word '%.60s'",
                     b->what, value->text);
    else
        job_complain(r->complaints, value->at, "%s must be a block of keys, not %s", b->what,
                     job_kind_name(value));
}

static void read_block(reader *r, const block *b, const job_node *value)
{
    if (value->kind != JOB_MAP) {
        complain_no_block(r, b, value);
        return;
    }
    for (const job_node *name = value->first; name != NULL; name = name->next->next) {
        const key *k = find_key(b, name->text);
        if (k == NULL)
            complain_unknown(r, b, name);
        else if (!name->repeated)
            k->read(r, k, name->next);
    }
}

void job_keys_offer(text_nearest *nearest)
{
    for (size_t i = 0; i < HOME_COUNT; i++) {
        for (size_t k = 0; k < homes[i]->count; k++)
            text_nearest_offer(nearest, homes[i]->keys[k].name);
    }
}

static bool has_train(const job_node *root)
{
    if (root->kind != JOB_MAP)
        return false;
    for (const job_node *name = root->first; name != NULL; name = name->next->next) {
        if (strcmp(name->text, "train") == 0)
            return true;
    }
    return false;
}

void job_keys_read(job_file *job, job_complaints *complaints)
{
    const bool wrapped = has_train(job->tree.root);
    reader r = {.job = job, .complaints = complaints, .body = wrapped ? "train" : TOP_NAME};
    read_block(&r, wrapped ? &top_block : &file_block, job->tree.root);
    check_framework_block(&r);
}
