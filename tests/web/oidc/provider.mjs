// The certified provider `oidc-provider` on loopback. Prints its address, then waits.
// Usage: node provider.mjs PORT REDIRECT_ORIGIN; PUT /control changes what it does: {"groups": {...}, "rotate": true}
import { createServer } from 'node:http';
import { generateKeyPairSync } from 'node:crypto';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.OIDC_MODULES + '/');
const { default: Provider } = await import(pathToFileURL(require.resolve('oidc-provider')).href);

const [port, origin] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const groups = { ana: ['sales', 'north'], max: ['leads', 'north'], eve: ['guests'], ada: ['admins'], ben: ['sales'] };
let generation = 0;
let handle;

function newKey() {
  generation += 1;
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid: `key-${generation}`, use: 'sig', alg: 'RS256' };
}

function start() {
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'ocular', client_secret: 'a secret of the tests', grant_types: ['authorization_code'],
      redirect_uris: [`${origin}/sign-in/sso/callback`], post_logout_redirect_uris: [`${origin}/sign-in`],
    }],
    jwks: { keys: [newKey()] },
    cookies: { keys: ['tests'] },
    pkce: { required: () => true },
    claims: { openid: ['sub'], profile: ['name', 'preferred_username', 'groups'], email: ['email'] },
    features: { devInteractions: { enabled: true }, rpInitiatedLogout: { enabled: true } },
    async findAccount(_, id) {
      return {
        accountId: id,
        claims: async () => ({
          sub: id, name: `${id} Provided`, preferred_username: id, email: `${id}@example.com`, groups: groups[id] ?? [],
        }),
      };
    },
  });
  handle = provider.callback();
}

start();
createServer((request, response) => {
  if (request.method !== 'PUT') return handle(request, response);
  let body = '';
  request.on('data', (chunk) => { body += chunk; });
  request.on('end', () => {
    const change = JSON.parse(body);
    Object.assign(groups, change.groups ?? {});
    if (change.rotate) start();
    response.end('{}');
  });
}).listen(Number(port), '127.0.0.1', () => console.log(issuer));
