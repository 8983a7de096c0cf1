/* Private parts of lib/token: the data that a tokenizer holds and the stages of encoding.
 *
 * text -> [added tokens split out] -> segments -> normalised -> [normalised added tokens] -> words -> merging -> ids */
#ifndef SLUICE_TOKEN_TOKEN_PRIV_H
#define SLUICE_TOKEN_TOKEN_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/token/pretok.h"
#include "lib/token/token.h"

#define TOKEN_VOCAB_MAX (1u << 24) /* ids take 24 bits in merge keys */
#define TOKEN_MARK "\xe2\x96\x81"  /* U+2581, which spm writes for a space */
#define TOKEN_MARK_LEN 3

/* --- vocabulary ------------------------------------------------------------------------------------------------ */

enum token_attr {
    ATTR_SPECIAL = 1,     /* control or unknown token: absent from decoded text unless asked for */
    ATTR_ADDED = 2,       /* matched whole in the text, before the model */
    ATTR_BYTE = 4,        /* spm "<0xXX>" */
    ATTR_STOP = 8,        /* ends a turn or a text */
    ATTR_LSTRIP = 16,     /* an added token that swallows white space on its left */
    ATTR_RSTRIP = 32,     /* ... on its right */
    ATTR_WORD = 64,       /* an added token that must not touch a word character */
    ATTR_NORMALIZED = 128 /* an added token that is matched in the normalised text */
};

/* Strings of all tokens, end to end: text as stored ("Ġthe", "▁the"), bytes as they appear in decoded text (" the"). */
struct vocab {
    uint32_t n;
    char *text;         /* text_off[n] bytes */
    uint32_t *text_off; /* n + 1 */
    char *bytes;        /* bytes_off[n] bytes */
    uint32_t *bytes_off;
    uint8_t *attr;      /* n; enum token_attr */
    uint64_t *slots;    /* hash of the text: tag << 32 | id + 1; 0 is free */
    uint32_t mask;      /* slots - 1 */
    uint32_t longest;   /* bytes of the longest text */
};

/* Room for n tokens whose texts have text_bytes bytes in all. */
int vocab_init(struct vocab *v, size_t n, size_t text_bytes, struct err *e);
void vocab_fini(struct vocab *v);
/* Appends token number `id` (ids come in order: 0, 1, ...), inside what vocab_init made room for. */
void vocab_set(struct vocab *v, uint32_t id, const char *text, size_t len);
/* Adds token id to the index; the first of equal texts stays. */
void vocab_index(struct vocab *v, uint32_t id);
int32_t vocab_find(const struct vocab *v, const char *text, size_t len); /* -1: none */
/* Computes bytes/bytes_off: byte-level texts are mapped back, spm marks become spaces, added tokens stay as they are. */
int vocab_make_bytes(struct vocab *v, bool spm, struct err *e);

static inline const char *vocab_text(const struct vocab *v, uint32_t id, size_t *len)
{
    *len = v->text_off[id + 1] - v->text_off[id];
    return v->text + v->text_off[id];
}

/* The printable character that byte-level BPE writes for a byte: at most 2 bytes of UTF-8. Returns their number. */
unsigned byte_level_char(unsigned char byte, char out[2]);

/* --- merges ---------------------------------------------------------------------------------------------------- */

struct merge { /* left + right -> id; the lowest rank goes first */
    int32_t left, right;
    uint32_t rank;
    int32_t id;
};

struct merge_table { /* open addressing by (left, right); free slots have left = -1 */
    struct merge *slots;
    uint32_t mask;
    uint32_t n;
};

int merge_table_init(struct merge_table *m, size_t n, struct err *e);
void merge_table_fini(struct merge_table *m);
void merge_table_put(struct merge_table *m, int32_t left, int32_t right, uint32_t rank, int32_t id); /* replaces */
const struct merge *merge_table_find(const struct merge_table *m, int32_t left, int32_t right);      /* NULL: none */

/* Merging by scores: what SentencePiece files without a list of merges do. The pair whose union has the best score
 * goes first. Among splits of one union the order is that of the merge lists which Hugging Face's converters write:
 * the longest left part (TIE_LONGEST, since 2024) or the lowest left id (TIE_LOWEST_ID, before). */
enum merge_tie { TIE_LOWEST_ID, TIE_LONGEST };

struct merge_scores {
    uint32_t *order; /* n; place of each token by descending score; UINT32_MAX: never the result of a merge */
    enum merge_tie tie;
};

int merge_scores_init(struct merge_scores *s, const float *score, const uint8_t *mergeable, size_t n,
                      enum merge_tie tie, struct err *e);

/* --- added tokens ---------------------------------------------------------------------------------------------- */

struct trie_node {
    uint32_t child, next; /* first child; next sibling; 0: none */
    int32_t id;           /* -1: no token ends here */
    unsigned char byte;
};

struct trie {
    struct trie_node *nodes; /* nodes[0] is unused */
    uint32_t n, cap;
    uint32_t root[256];
    uint32_t n_tokens;
};

int trie_add(struct trie *t, const char *text, size_t len, int32_t id, struct err *e);
void trie_fini(struct trie *t);
/* The leftmost, then longest token in s[from..n). False: none. */
bool trie_next(const struct trie *t, const char *s, size_t n, size_t from, struct token_span *at, int32_t *id);

/* --- the tokenizer --------------------------------------------------------------------------------------------- */

enum metaspace { META_NONE, META_FIRST, META_ALWAYS };

struct normalizer {
    bool nfc;
    bool prepend;             /* U+2581 before every non-empty segment */
    bool spaces;              /* " " becomes U+2581 */
    enum metaspace metaspace; /* the pre-tokenizer of that name: prepends unless the text begins with a mark */
};

struct tokenizer {
    struct vocab v;
    struct merge_table merges;
    struct merge_scores scores; /* spm from GGUF only */
    struct trie raw, normal;    /* added tokens, matched before and after normalisation */
    struct normalizer norm;
    struct pretok pretok;
    bool spm;
    bool split_every_mark; /* spm: the file asks for a cut before each mark */
    bool joins_mark[256];  /* spm: some token has a mark after this byte, so that a word may go on there */
    bool ignore_merges;    /* a word that is in the vocabulary is taken whole */
    bool byte_prefix;      /* byte-level: a space is put before a text that does not begin with one */
    bool strip_space;      /* decoding removes one leading space */
    bool fuse_unk;
    bool add_bos, add_eos;
    int32_t byte_id[256];  /* token of each byte; -1: none */
    char level[256][2];    /* byte_level_char of each byte */
    uint8_t level_len[256];
    int32_t bos, eos, unk;
    char *chat_text;      /* the model's chat template; NULL: none. NUL-terminated */
};

/* One per call of encode: scratch memory. */
struct merge_work;
struct token_work {
    struct merge_work *merge;
    struct pretok_work *pretok;
    struct token_span_list words;
    char *norm; /* of token_normalize */
    size_t norm_cap;
    char *prefixed; /* a text with a space before it */
    char *word;     /* a word as byte-level text: v.longest + 2 bytes */
};

int token_list_push(struct token_list *l, int32_t id, struct err *e);
/* Makes room for `more` elements. */
int token_list_grow(struct token_list *l, size_t more, struct err *e);

/* Encodes s[0..n), recognising special tokens only inside the spans trusted[0..n_trusted) (sorted, disjoint). Neither
 * BOS nor EOS is added. On failure out keeps what it had. */
int token_encode_trusted(const struct tokenizer *t, const char *s, size_t n, const struct token_span *trusted,
                         size_t n_trusted, struct token_list *out, struct err *e);

/* Byte-level BPE of one word; SentencePiece BPE of one normalised segment. */
int bpe_encode_word(const struct tokenizer *t, struct token_work *w, const char *s, size_t n, struct token_list *out,
                    struct err *e);
int spm_encode(const struct tokenizer *t, struct token_work *w, const char *s, size_t n, struct token_list *out,
               struct err *e);

/* Symbols to merge. merge_begin empties the list; merge_push appends a symbol: id and, for merging by score, the end of
 * its text and its number of characters. merge_finish merges and appends the result to out. */
int merge_work_open(struct merge_work **out, struct err *e);
void merge_work_close(struct merge_work *w);
void merge_begin(struct merge_work *w);
int merge_push(struct merge_work *w, int32_t id, size_t text_end, struct err *e);
int merge_finish(const struct tokenizer *t, struct merge_work *w, const char *text, struct token_list *out,
                 struct err *e);

/* Normalises s[0..n) as t asks. *out is s itself or points into w->norm, valid until the next call. first: the segment
 * begins the text. */
int token_normalize(const struct tokenizer *t, struct token_work *w, const char *s, size_t n, bool first,
                    const char **out, size_t *out_len, struct err *e);
/* Normalization form C of valid UTF-8; malloc'd. */
int nfc_normalize(const char *s, size_t n, char **out, size_t *out_len, struct err *e);
/* True when s[0..n) consists of characters that are certainly in form C, in any order. */
bool nfc_is_plain(const char *s, size_t n);

/* Makes t an empty tokenizer, which tokenizer_close takes (it must be from malloc). */
void token_init(struct tokenizer *t);

/* Loaders fill an empty tokenizer; the caller frees it on failure. */
int token_load_gguf(struct tokenizer *t, struct source *s, const char *pre, struct err *e);
int token_load_hf(struct tokenizer *t, struct source *s, const char *pre, struct err *e);
/* After vocab, attributes and merges are there: byte ids, tries, stop tokens, decoded bytes. */
int token_finish(struct tokenizer *t, struct err *e);
/* Marks tokens whose text is a known end of turn, when they are special. */
void token_mark_stops(struct tokenizer *t);

#endif
