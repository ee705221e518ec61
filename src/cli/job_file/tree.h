/* tree.h: YAML as a tree of words, lists and maps, each with its place.
 *
 * Bounded on purpose: bytes, depth, entries of a map and anchors have limits, and an alias shares the
 * children of its anchor instead of copying them, so no file makes more nodes than it has bytes.
 */
#ifndef RUEDA_CLI_JOB_FILE_TREE_H
#define RUEDA_CLI_JOB_FILE_TREE_H

#include "cli/job_file/complaints.h"

#include <stddef.h>

#define JOB_BYTES_MAX 262144 /* of a file */
#define JOB_DEPTH_MAX 16
#define JOB_ENTRIES_MAX 1024 /* of one map */
#define JOB_ANCHORS_MAX 64

typedef enum job_kind { JOB_WORD, JOB_LIST, JOB_MAP } job_kind;

typedef struct job_node job_node;
struct job_node {
    job_kind kind;
    job_place at;
    const char *text;      /* of a word; no zero byte inside */
    bool plain;            /* a word without quotes: may be a number */
    bool repeated;         /* a key that its map has already; that was complained about */
    const job_node *first; /* of a list; of a map key, value, key, value */
    const job_node *next;  /* its sibling */
};

typedef struct job_tree {
    const job_node *root;
    struct job_memory *memory; /* what the nodes and their texts lie in */
} job_tree;

/* Reads one document. NULL root: it was no YAML, or beyond a limit; the complaints say where. Free
 * the tree in both cases. */
job_tree job_tree_read(const char *text, size_t bytes, job_complaints *complaints);
void job_tree_free(job_tree *tree);

/* Zeroed memory that lives as long as the tree; ends the process if there is none. */
void *job_tree_take(job_tree *tree, size_t bytes);

/* A text in that memory. */
char *job_tree_text(job_tree *tree, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Entries of a list or map. */
size_t job_node_count(const job_node *node);

#endif
