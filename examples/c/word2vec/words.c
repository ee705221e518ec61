/* words.c: see words.h. The lists were written for a text of the Bible; a word that another text does
 * not have is left out. */
#include "words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ANSWERS 5 /* an analogy counts as solved if the answer is among so many */
#define SHOWN 6

/* ---- Lists ----------------------------------------------------------------------------------- */

static const char *const partners[][2] = {
    /* family and people */
    {"father", "mother"},
    {"brother", "sister"},
    {"son", "daughter"},
    {"sons", "daughters"},
    {"husband", "wife"},
    {"man", "woman"},
    {"men", "women"},
    {"bridegroom", "bride"},
    {"menservants", "maidservants"},
    {"king", "queen"},
    {"priests", "levites"},
    {"scribes", "pharisees"},
    {"widow", "fatherless"},
    {"rich", "poor"},
    {"bond", "free"},
    /* names */
    {"moses", "aaron"},
    {"abraham", "isaac"},
    {"isaac", "jacob"},
    {"david", "solomon"},
    {"saul", "jonathan"},
    {"peter", "john"},
    {"james", "john"},
    {"paul", "barnabas"},
    {"mary", "martha"},
    {"sodom", "gomorrah"},
    {"judah", "jerusalem"},
    {"tyre", "sidon"},
    {"ephraim", "manasseh"},
    {"ammon", "moab"},
    {"rachel", "leah"},
    {"hittites", "amorites"},
    {"shadrach", "meshach"},
    {"gog", "magog"},
    {"elijah", "elisha"},
    {"joshua", "nun"},
    /* animals */
    {"sheep", "goats"},
    {"oxen", "asses"},
    {"bullock", "ram"},
    {"lion", "bear"},
    {"ox", "ass"},
    {"lambs", "rams"},
    {"horses", "chariots"},
    {"camels", "asses"},
    {"birds", "fowls"},
    {"flocks", "herds"},
    /* things */
    {"gold", "silver"},
    {"brass", "iron"},
    {"bread", "wine"},
    {"corn", "wine"},
    {"milk", "honey"},
    {"sword", "spear"},
    {"bow", "arrows"},
    {"wheat", "barley"},
    {"fig", "vine"},
    {"purple", "scarlet"},
    {"thorns", "briers"},
    {"wood", "stone"},
    {"frankincense", "myrrh"},
    {"cymbals", "psaltery"},
    {"flour", "oil"},
    {"shoes", "feet"},
    {"famine", "pestilence"},
    {"hail", "fire"},
    /* nature and time */
    {"heaven", "earth"},
    {"sun", "moon"},
    {"day", "night"},
    {"morning", "evening"},
    {"summer", "winter"},
    {"north", "south"},
    {"east", "west"},
    {"mountains", "hills"},
    {"wind", "rain"},
    {"light", "darkness"},
    {"sea", "waters"},
    {"thunder", "lightnings"},
    /* body */
    {"eyes", "ears"},
    {"hands", "feet"},
    {"head", "beard"},
    {"flesh", "blood"},
    {"mouth", "lips"},
    {"heart", "soul"},
    {"thumb", "toe"},
    {"kidneys", "caul"},
    {"bones", "flesh"},
    /* qualities and deeds */
    {"good", "evil"},
    {"righteous", "wicked"},
    {"wise", "foolish"},
    {"clean", "unclean"},
    {"life", "death"},
    {"joy", "gladness"},
    {"mercy", "truth"},
    {"faith", "love"},
    {"grace", "peace"},
    {"blessing", "curse"},
    {"eat", "drink"},
    {"arise", "go"},
    {"sing", "praise"},
    {"buy", "sell"},
    {"weep", "mourn"},
    {"hear", "hearken"},
    {"widows", "orphans"},
    /* numbers and small words */
    {"two", "three"},
    {"five", "six"},
    {"seven", "eight"},
    {"twenty", "thirty"},
    {"hundred", "thousand"},
    {"first", "second"},
    {"third", "fourth"},
    {"he", "she"},
    {"his", "her"},
    {"thou", "thee"},
    {"ye", "you"},
    {"cubits", "breadth"}};
#define PARTNERS (sizeof partners / sizeof partners[0])

/* a is to b as c is to d */
static const char *const analogies[][4] = {{"man", "woman", "king", "queen"},
                                           {"man", "woman", "son", "daughter"},
                                           {"father", "mother", "son", "daughter"},
                                           {"father", "mother", "brother", "sister"},
                                           {"man", "woman", "husband", "wife"},
                                           {"men", "women", "sons", "daughters"},
                                           {"he", "she", "his", "her"},
                                           {"he", "she", "him", "her"},
                                           {"man", "men", "woman", "women"},
                                           {"king", "kings", "priest", "priests"},
                                           {"son", "sons", "daughter", "daughters"},
                                           {"king", "kings", "prince", "princes"},
                                           {"city", "cities", "house", "houses"},
                                           {"hand", "hands", "eye", "eyes"},
                                           {"go", "goeth", "come", "cometh"},
                                           {"speak", "speaketh", "give", "giveth"},
                                           {"eat", "eaten", "drink", "drunk"},
                                           {"he", "they", "his", "their"},
                                           {"thou", "ye", "thy", "your"},
                                           {"i", "we", "my", "our"},
                                           {"day", "night", "light", "darkness"},
                                           {"sun", "day", "moon", "night"},
                                           {"east", "west", "north", "south"},
                                           {"good", "evil", "righteous", "wicked"},
                                           {"abraham", "isaac", "isaac", "jacob"},
                                           {"moses", "aaron", "paul", "barnabas"},
                                           {"egypt", "pharaoh", "babylon", "nebuchadnezzar"},
                                           {"israel", "samaria", "judah", "jerusalem"},
                                           {"two", "second", "three", "third"},
                                           {"three", "third", "four", "fourth"},
                                           {"bread", "eat", "wine", "drink"},
                                           {"gold", "silver", "brass", "iron"}};
#define ANALOGIES (sizeof analogies / sizeof analogies[0])

/* ---- Nearest words --------------------------------------------------------------------------- */

static float product(const float *a, const float *b, int size)
{
    float sum = 0;
    for (int i = 0; i < size; i++)
        sum += a[i] * b[i];
    return sum;
}

static const float *vector_of(const words *w, int word)
{
    return w->vectors + (size_t)word * (size_t)w->size;
}

bool words_init(words *w, const vocabulary *names, const float *vectors, int size)
{
    *w = (words){names, size, malloc(sizeof(float) * (size_t)names->count * (size_t)size)};
    if (w->vectors == NULL)
        return false;
    for (int i = 0; i < names->count; i++) {
        const float *from = vectors + (size_t)i * (size_t)size;
        float *to = w->vectors + (size_t)i * (size_t)size;
        const float length = sqrtf(product(from, from, size));
        for (int j = 0; j < size; j++)
            to[j] = length > 0 ? from[j] / length : 0;
    }
    return true;
}

void words_free(words *w)
{
    free(w->vectors);
}

static bool is_among(const int *list, int count, int word)
{
    for (int i = 0; i < count; i++) {
        if (list[i] == word)
            return true;
    }
    return false;
}

int words_nearest(const words *w, const float *direction, const int *except, int excepted,
                  int count, int *found)
{
    float near[64];
    int filled = 0;
    count = count < 64 ? count : 64;
    for (int i = 0; i < w->names->count; i++) {
        const float p = product(direction, vector_of(w, i), w->size);
        if ((filled == count && !(p > near[count - 1])) || is_among(except, excepted, i))
            continue;
        int at = filled < count ? filled++ : count - 1;
        for (; at > 0 && p > near[at - 1]; at--) {
            near[at] = near[at - 1];
            found[at] = found[at - 1];
        }
        near[at] = p;
        found[at] = i;
    }
    return filled;
}

/* ---- Partners and analogies ------------------------------------------------------------------ */

static bool finds(const words *w, int word, int partner)
{
    int found[NEAR];
    const int count = words_nearest(w, vector_of(w, word), &word, 1, NEAR, found);
    return is_among(found, count, partner);
}

double words_partners(const words *w)
{
    int asked = 0, right = 0;
    for (size_t i = 0; i < PARTNERS; i++) {
        const int a = vocabulary_find(w->names, partners[i][0]);
        const int b = vocabulary_find(w->names, partners[i][1]);
        if (a < 0 || b < 0)
            continue;
        asked += 2;
        right += finds(w, a, b) + finds(w, b, a);
    }
    return asked == 0 ? NAN : (double)right / asked;
}

/* The five nearest words to b − a + c; 0: a word is unknown. */
static int solve(const words *w, const char *const words_of[4], int found[FIRST_ANSWERS],
                 int *answer)
{
    int known[3];
    for (int i = 0; i < 3; i++) {
        known[i] = vocabulary_find(w->names, words_of[i]);
        if (known[i] < 0)
            return 0;
    }
    *answer = vocabulary_find(w->names, words_of[3]);
    float *direction = malloc(sizeof *direction * (size_t)w->size);
    if (*answer < 0 || direction == NULL) {
        free(direction);
        return 0;
    }
    for (int i = 0; i < w->size; i++)
        direction[i] =
            vector_of(w, known[1])[i] - vector_of(w, known[0])[i] + vector_of(w, known[2])[i];
    const int count = words_nearest(w, direction, known, 3, FIRST_ANSWERS, found);
    free(direction);
    return count;
}

int words_analogies(const words *w, int *asked)
{
    int right = 0;
    *asked = 0;
    for (size_t i = 0; i < ANALOGIES; i++) {
        int found[FIRST_ANSWERS], answer = -1;
        const int count = solve(w, analogies[i], found, &answer);
        *asked += count > 0;
        right += is_among(found, count, answer);
    }
    return right;
}

/* ---- For people ------------------------------------------------------------------------------ */

static void print_neighbours(const words *w)
{
    static const char *const shown[] = {"king", "david", "jesus", "egypt", "gold", "bread",
                                        "lion", "sea",   "wise",  "sword", "seven"};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        const int word = vocabulary_find(w->names, shown[i]);
        int found[SHOWN];
        if (word < 0)
            continue;
        const int count = words_nearest(w, vector_of(w, word), &word, 1, SHOWN, found);
        printf("  %-8s", shown[i]);
        for (int j = 0; j < count; j++)
            printf(" %s", w->names->words[found[j]]);
        putchar('\n');
    }
}

static void print_analogies(const words *w)
{
    for (size_t i = 0; i < ANALOGIES; i++) {
        int found[FIRST_ANSWERS], answer = -1;
        const int count = solve(w, analogies[i], found, &answer);
        if (count == 0 || !is_among(found, count, answer))
            continue;
        printf("  %s is to %s as %s is to:", analogies[i][0], analogies[i][1], analogies[i][2]);
        for (int j = 0; j < count; j++)
            printf(found[j] == answer ? " [%s]" : " %s", w->names->words[found[j]]);
        putchar('\n');
    }
}

void words_print(const words *w)
{
    int asked;
    const int right = words_analogies(w, &asked);
    puts("\nnearest words");
    print_neighbours(w);
    if (asked == 0)
        return;
    printf("\nanalogies: the answer is among the first %d in %d of %d, which are\n", FIRST_ANSWERS,
           right, asked);
    print_analogies(w);
}

bool words_save(const vocabulary *names, const float *vectors, int size, const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return false;
    fprintf(file, "%d %d\n", names->count, size);
    for (int i = 0; i < names->count; i++) {
        fputs(names->words[i], file);
        for (int j = 0; j < size; j++)
            fprintf(file, " %.6g", (double)vectors[(size_t)i * (size_t)size + (size_t)j]);
        fputc('\n', file);
    }
    const bool good = ferror(file) == 0;
    return fclose(file) == 0 && good;
}
